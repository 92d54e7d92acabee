// Source location of an API call, for the findings of checked mode.
//
// With AUTOFUSE_TWIN_CHECKED every API function has an extra parameter, which defaults to the call site. Otherwise the
// parameter does not exist, so that fast mode has no overhead.
#ifndef AUTOFUSE_TWIN_SITE_H
#define AUTOFUSE_TWIN_SITE_H

namespace autofuse_twin {

void SiteSet(int line, const char* file);

struct Site {
    // Only default arguments at a call capture its location; nothing converts to a Site implicitly.
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
