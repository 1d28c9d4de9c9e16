// What a model that counts tells of its points.

#include "points.h"

celosia::Points celosia::points;

extern "C" {

// Returns what the points of this kind of model are; nothing before the first was made.
const char* celosia_points() { return celosia::points.text.c_str(); }

// Gives the most that one of the closed models has counted at each point, and forgets it.
void celosia_take(uint32_t* most) {
    for (uint32_t& count : celosia::points.most) {
        *most++ = count;
        count = 0;
    }
}

}  // extern "C"
