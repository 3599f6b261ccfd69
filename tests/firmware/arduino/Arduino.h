/*
 * A stand-in for the header of an Arduino core: what the port and the sketches use of one, with the
 * types that cores give them. It lets the compiler see the code; it is not a core.
 */
#ifndef ARDUINO_STAND_IN_H
#define ARDUINO_STAND_IN_H

#include <stddef.h>
#include <stdint.h>

#define LOW 0
#define HIGH 1
#define INPUT_PULLUP 2
#define A0 14

#ifdef __cplusplus
extern "C" {
#endif

void setup(void);
void loop(void);
unsigned long micros(void);
unsigned long millis(void);
void delay(unsigned long);
void pinMode(uint8_t, uint8_t);
int digitalRead(uint8_t);
int analogRead(uint8_t);

#ifdef __cplusplus
}

class Stream
{
  public:
    void begin(unsigned long);
    int available();
    int read();
    size_t write(const uint8_t *, size_t);
    size_t print(const char *);
    size_t println(const char *);
    size_t println(int);
    size_t println(long);
    size_t println(double);
};

extern Stream Serial;
#endif

#endif
