// Internal flash of a SAMD51: its controller (NVMCTRL), by the names of the vendor's header.
#include <Arduino.h>

#include "tt_flash.h"

#if defined(TT_FLASH_SAMD51)

extern "C" uint32_t __etext, __data_start__, __data_end__; // of the core's linker script

namespace
{

constexpr uint32_t ERASE_BYTES = 8192u, PROGRAM_BYTES = 16u; // a block; a quad word
#if defined(TT_FLASH_END)
constexpr uint32_t END = TT_FLASH_END;
#else
constexpr uint32_t END = FLASH_SIZE;
#endif

void wait()
{
    while (NVMCTRL->STATUS.bit.READY == 0) {
    }
}

void command(uint32_t address, uint32_t code)
{
    wait();
    NVMCTRL->ADDR.reg = address;
    NVMCTRL->CTRLB.reg = (uint16_t)(NVMCTRL_CTRLB_CMDEX_KEY | code);
    wait();
}

// Commands only by hand; no stale lines, neither in the controller nor in the processor's cache.
class Session
{
  public:
    Session() : control_(NVMCTRL->CTRLA.reg)
    {
        wait();
        NVMCTRL->CTRLA.reg =
            (uint16_t)((control_ & ~NVMCTRL_CTRLA_WMODE_Msk) | NVMCTRL_CTRLA_WMODE_MAN |
                       NVMCTRL_CTRLA_CACHEDIS0 | NVMCTRL_CTRLA_CACHEDIS1);
        NVMCTRL->INTFLAG.reg = NVMCTRL_INTFLAG_MASK; // errors of earlier commands
        CMCC->CTRL.reg = 0u;
        while (CMCC->SR.bit.CSTS != 0u) {
        }
    }

    ~Session()
    {
        CMCC->MAINT0.reg = CMCC_MAINT0_INVALL;
        CMCC->CTRL.reg = CMCC_CTRL_CEN;
        NVMCTRL->CTRLA.reg = control_;
    }

    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;

    // Whether all commands so far did what they were told.
    bool good() const
    {
        return (NVMCTRL->INTFLAG.reg & (NVMCTRL_INTFLAG_ADDRE | NVMCTRL_INTFLAG_PROGE |
                                        NVMCTRL_INTFLAG_LOCKE | NVMCTRL_INTFLAG_NVME)) == 0u;
    }

  private:
    uint16_t control_;
};

int erase_block(const tt_storage *storage, uint32_t offset)
{
    const Session session;
    command(tt_flash_address(storage, offset), NVMCTRL_CTRLB_CMD_EB);
    return session.good() ? 0 : -1;
}

int program_units(const tt_storage *storage, uint32_t offset, const void *data, uint32_t bytes)
{
    const Session session;
    const uint32_t address = tt_flash_address(storage, offset);
    for (uint32_t at = 0; at < bytes; at += PROGRAM_BYTES) {
        uint32_t words[PROGRAM_BYTES / 4u];
        memcpy(words, (const uint8_t *)data + at, sizeof words);
        command(address + at, NVMCTRL_CTRLB_CMD_PBC);
        volatile uint32_t *buffer = (volatile uint32_t *)(uintptr_t)(address + at);
        for (uint32_t i = 0; i < PROGRAM_BYTES / 4u; i++) {
            buffer[i] = words[i]; // fills the page buffer; flash changes by the command
        }
        command(address + at, NVMCTRL_CTRLB_CMD_WQW);
    }
    return session.good() ? 0 : -1;
}

} // namespace

const tt_storage *tt_core_flash(uint32_t state_bytes)
{
    static tt_storage storage = {tt_flash_read, erase_block,  program_units, nullptr, 0u,
                                 ERASE_BYTES,   PROGRAM_BYTES};
    const uint32_t image_end =
        (uint32_t)((uintptr_t)&__etext + ((uintptr_t)&__data_end__ - (uintptr_t)&__data_start__));
    return tt_flash_place(&storage, state_bytes, image_end, END);
}

#endif
