#include "tt_status.h"

const char *tt_status_text(tt_status status)
{
#define TT_STATUS_CASE(name, value, text)                                                          \
    case name:                                                                                     \
        return text;
    switch (status) {
        TT_STATUS_LIST(TT_STATUS_CASE)
    default:
        return "not a status";
    }
#undef TT_STATUS_CASE
}
