// Where a call of the API stands in the source text, for the findings of checked mode.
//
// With AUTOFUSE_TWIN_CHECKED every API function has one more parameter, defaulted to the place of the call. Without
// it the parameter does not exist, so that fast mode pays nothing for it.
#ifndef AUTOFUSE_TWIN_SITE_H
#define AUTOFUSE_TWIN_SITE_H

namespace autofuse_twin {

void SiteSet(int line, const char* file);

struct Site {
    // Only the default arguments at a call know its place; nothing converts to a Site by accident.
    explicit Site(int line = __builtin_LINE(), const char* file = __builtin_FILE()) { SiteSet(line, file); }
};

}  // namespace autofuse_twin

#ifdef AUTOFUSE_TWIN_CHECKED
#define AUTOFUSE_TWIN_HERE , ::autofuse_twin::Site = ::autofuse_twin::Site()
#define AUTOFUSE_TWIN_HERE_ONLY ::autofuse_twin::Site = ::autofuse_twin::Site()
#else
#define AUTOFUSE_TWIN_HERE
#define AUTOFUSE_TWIN_HERE_ONLY
#endif

#endif
