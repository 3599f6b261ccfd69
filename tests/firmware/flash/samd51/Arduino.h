/*
 * A stand-in for what a SAMD51 core's Arduino.h brings along of the vendor's header: the registers
 * that the flash driver uses. A write to one is a call, so that a test can play the controller.
 */
#ifndef SAMD51_STAND_IN_H
#define SAMD51_STAND_IN_H

#include_next <Arduino.h>

#define FLASH_SIZE 0x80000u

#define NVMCTRL_CTRLA_WMODE_MAN 0x00u
#define NVMCTRL_CTRLA_WMODE_Msk 0x30u
#define NVMCTRL_CTRLA_CACHEDIS0 0x4000u
#define NVMCTRL_CTRLA_CACHEDIS1 0x8000u
#define NVMCTRL_CTRLB_CMDEX_KEY 0xa500u
#define NVMCTRL_CTRLB_CMD_EB 0x01u
#define NVMCTRL_CTRLB_CMD_WQW 0x04u
#define NVMCTRL_CTRLB_CMD_PBC 0x15u
#define NVMCTRL_INTFLAG_ADDRE 0x02u
#define NVMCTRL_INTFLAG_PROGE 0x04u
#define NVMCTRL_INTFLAG_LOCKE 0x08u
#define NVMCTRL_INTFLAG_NVME 0x40u
#define NVMCTRL_INTFLAG_MASK 0xffu
#define CMCC_MAINT0_INVALL 0x01u
#define CMCC_CTRL_CEN 0x01u

void tt_stand_in_command(uint16_t command);

struct tt_command {
    tt_command &operator=(uint16_t value)
    {
        tt_stand_in_command(value);
        return *this;
    }
};

/* A one that is written clears. */
struct tt_flags {
    uint16_t value;
    tt_flags &operator=(uint16_t written)
    {
        value = (uint16_t)(value & ~written);
        return *this;
    }
    operator uint16_t() const { return value; }
};

struct Nvmctrl {
    struct {
        uint16_t reg;
    } CTRLA;
    struct {
        tt_command reg;
    } CTRLB;
    struct {
        uint32_t reg;
    } ADDR;
    struct {
        tt_flags reg;
    } INTFLAG;
    struct {
        struct {
            uint16_t READY : 1;
        } bit;
    } STATUS;
};

struct Cmcc {
    struct {
        uint32_t reg;
    } CTRL, MAINT0;
    struct {
        struct {
            uint32_t CSTS : 1;
        } bit;
    } SR;
};

extern Nvmctrl tt_stand_in_nvmctrl;
extern Cmcc tt_stand_in_cmcc;
#define NVMCTRL (&tt_stand_in_nvmctrl)
#define CMCC (&tt_stand_in_cmcc)

#endif
