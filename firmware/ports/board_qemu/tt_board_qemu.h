/*
 * tt_board.h for QEMU. The first word of the firmware's command line names the file that stands for
 * flash (made where it is missing); without one nothing can be saved.
 */
#ifndef TT_BOARD_QEMU_H
#define TT_BOARD_QEMU_H

#include "tt_board.h"

#endif
