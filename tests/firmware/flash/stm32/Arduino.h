/*
 * A stand-in for what an STM32 core's Arduino.h brings along of ST's HAL and CMSIS: names and types
 * as they are there, as far as the flash driver uses them. It is not a core.
 */
#ifndef STM32_STAND_IN_H
#define STM32_STAND_IN_H

#include_next <Arduino.h>

#define FLASH_BASE 0x08000000UL

#if defined(STM32F411xE)
#define FLASH_END 0x0807FFFFUL
#elif defined(STM32F746xx)
#define FLASH_END 0x080FFFFFUL
#elif defined(STM32H743xx)
#define FLASH_END 0x081FFFFFUL
#define FLASH_BANK2_BASE 0x08100000UL
#elif defined(STM32L476xx)
#define FLASH_END 0x080FFFFFUL
#define FLASH_PAGE_SIZE 0x800U
#define FLASH_BANK_SIZE 0x80000UL
#else
#error "no such part here"
#endif

typedef enum { HAL_OK = 0, HAL_ERROR = 1, HAL_BUSY = 2, HAL_TIMEOUT = 3 } HAL_StatusTypeDef;

#define FLASH_TYPEERASE_SECTORS 0x00U
#define FLASH_TYPEERASE_PAGES 0x02U
#define FLASH_VOLTAGE_RANGE_3 0x02U
#define FLASH_BANK_1 0x01U
#define FLASH_BANK_2 0x02U
#define FLASH_TYPEPROGRAM_WORD 0x02U
#define FLASH_TYPEPROGRAM_DOUBLEWORD 0x03U
#define FLASH_TYPEPROGRAM_FLASHWORD 0x04U

typedef struct {
    uint32_t TypeErase, Banks;
#if defined(STM32L4xx)
    uint32_t Page, NbPages;
#else
    uint32_t Sector, NbSectors, VoltageRange;
#endif
} FLASH_EraseInitTypeDef;

#define FLASH_FLAG_OPERR 0x02U
#define FLASH_FLAG_WRPERR 0x10U
#define FLASH_FLAG_PGAERR 0x20U
#define FLASH_FLAG_PGPERR 0x40U
#define FLASH_FLAG_PGSERR 0x80U
#define FLASH_FLAG_ERSERR 0x80U
#define FLASH_FLAG_ALL_ERRORS 0xf2U
#define FLASH_FLAG_ALL_ERRORS_BANK1 0x1U
#define FLASH_FLAG_ALL_ERRORS_BANK2 0x2U

#ifdef __cplusplus
extern "C" {
#endif

HAL_StatusTypeDef HAL_FLASH_Unlock(void);
HAL_StatusTypeDef HAL_FLASH_Lock(void);
HAL_StatusTypeDef HAL_FLASHEx_Erase(FLASH_EraseInitTypeDef *, uint32_t *);
#if defined(STM32H7xx)
HAL_StatusTypeDef HAL_FLASH_Program(uint32_t, uint32_t, uint32_t);
#else
HAL_StatusTypeDef HAL_FLASH_Program(uint32_t, uint32_t, uint64_t);
#endif
void tt_stand_in_clear(uint32_t);
void tt_stand_in_cache(void);
void SCB_InvalidateDCache_by_Addr(void *, int32_t);
uint32_t __get_FAULTMASK(void);
void __set_FAULTMASK(uint32_t);
void __DSB(void);

typedef struct {
    volatile uint32_t CCR;
} SCB_Type;
typedef struct {
    volatile uint32_t ECCR;
} FLASH_TypeDef;
extern SCB_Type tt_stand_in_scb;
extern FLASH_TypeDef tt_stand_in_flash;
#define SCB (&tt_stand_in_scb)
#define SCB_CCR_BFHFNMIGN_Msk (1UL << 8)
#define FLASH (&tt_stand_in_flash)
#define FLASH_ECCR_ECCD (1UL << 31)

#ifdef __cplusplus
}
#endif

#define __HAL_FLASH_CLEAR_FLAG(flags) tt_stand_in_clear(flags)
#define __HAL_FLASH_CLEAR_FLAG_BANK1(flags) tt_stand_in_clear(flags)
#define __HAL_FLASH_CLEAR_FLAG_BANK2(flags) tt_stand_in_clear(flags)
#define __HAL_FLASH_DATA_CACHE_DISABLE() tt_stand_in_cache()
#define __HAL_FLASH_DATA_CACHE_RESET() tt_stand_in_cache()
#define __HAL_FLASH_DATA_CACHE_ENABLE() tt_stand_in_cache()

#endif
