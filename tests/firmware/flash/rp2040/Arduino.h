/* A stand-in for the Arduino.h of a core on the Pico SDK: what the flash driver uses of it. */
#ifndef RP2040_STAND_IN_H
#define RP2040_STAND_IN_H

#include_next <Arduino.h>

class RP2040
{
  public:
    void idleOtherCore();
    void resumeOtherCore();
};

extern RP2040 rp2040;

#endif
