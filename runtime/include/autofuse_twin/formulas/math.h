// Exp and Ln in float, for loops that the compiler vectorises, and e^x in double for other functions. Included like
// bits.h, after it.
//
// Products and sums are never fused (-ffp-contract=off, -fmad=false), so every processor gives the same bits. The
// polynomials are minimax fits; the rounding error of adding two large terms is kept and added with the small terms.

// ln(2) in two parts: the product of the first with an integer below 2^15 is exact.
constexpr float kLn2Hi = 0.693359375f;
constexpr float kLn2Lo = -2.12194440054690583e-4f;

// e^x as 2^n * value with value = e^r, |r| <= ln(2)/2.
struct ExpParts {
    float value;
    int32_t n;
};
AUTOFUSE_FORMULA ExpParts ExpReduced(float x) {
    const float shift = 12582912.0f;  // 1.5 * 2^23: the low bits of the sum hold the integer
    const float t = x * 1.44269504088896341f + shift;
    const float k = t - shift;
    const float hi = x - k * kLn2Hi;
    const float lo = k * kLn2Lo;
    const float r = hi - lo;
    float q = 0x1.9f086ep-13f;
    q = q * r + 0x1.6d8d38p-10f;
    q = q * r + 0x1.111272p-7f;
    q = q * r + 0x1.55548ep-5f;
    q = q * r + 0x1.555554p-3f;
    q = q * r + 0.5f;
    const float sum = 1.0f + hi;
    const float lost = (1.0f - sum) + hi;
    return {sum + (lost + (r * r * q - lo)), static_cast<int32_t>(BitCast<uint32_t>(t) - 0x4b400000u)};
}

// Within 0.78 ulp, within 0.7 where the result is normal.
AUTOFUSE_FORMULA float ExpFloat(float x) {
    // Beyond the limits the result is infinite or zero in any case; NaN stays NaN.
    const float above = x > 89.0f ? 89.0f : x;
    const ExpParts e = ExpReduced(above < -104.0f ? -104.0f : above);
    // In two steps, as 2^n itself may be out of range: the second one rounds if the result is subnormal.
    const int32_t half = e.n >> 1;
    const float first = BitCast<float>(static_cast<uint32_t>(half + 127) << 23);
    const float second = BitCast<float>(static_cast<uint32_t>(e.n - half + 127) << 23);
    return e.value * first * second;
}
// The same for |x| <= 87, where 2^n and the result are normal.
AUTOFUSE_FORMULA float ExpPlain(float x) {
    const ExpParts e = ExpReduced(x);
    return e.value * BitCast<float>(static_cast<uint32_t>(e.n + 127) << 23);
}

// ln of x * 2^-less for the bits of a positive normal number x, within 0.84 ulp.
AUTOFUSE_FORMULA float LogReduced(uint32_t bits, float less) {
    // x = 2^e * (1 + f) with 1 + f between sqrt(1/2) and sqrt(2).
    const uint32_t steps = (bits - 0x3f3504f3u) & 0xff800000u;
    const float f = BitCast<float>(bits - steps) - 1.0f;
    const float e = static_cast<float>(static_cast<int32_t>(steps) >> 23) - less;
    const float z = f * f;
    float p = 0x1.1457b2p-4f;
    p = p * f - 0x1.de3c36p-4f;
    p = p * f + 0x1.e6f078p-4f;
    p = p * f - 0x1.fc2204p-4f;
    p = p * f + 0x1.233768p-3f;
    p = p * f - 0x1.555c4ep-3f;
    p = p * f + 0x1.99a4b6p-3f;
    p = p * f - 0x1.000006p-2f;
    p = p * f + 0x1.555548p-2f;
    const float whole = e * kLn2Hi;
    const float sum = whole + f;
    const float lost = f - (sum - whole);
    return sum + (lost - (0.5f * z - (f * z * p + e * kLn2Lo)));
}
AUTOFUSE_FORMULA float LogFloat(float x) {
    const bool tiny = x < 0x1p-126f;
    const float value = LogReduced(BitCast<uint32_t>(tiny ? x * 0x1p23f : x), tiny ? 23.0f : 0.0f);
    const float inf = __builtin_inff();
    const float below = x == 0.0f ? -inf : __builtin_nanf("");
    const float checked = x > 0.0f ? (x == inf ? inf : value) : below;
    return x != x ? x + x : checked;
}
// The same for positive normal numbers.
AUTOFUSE_FORMULA float LogPlain(float x) { return LogReduced(BitCast<uint32_t>(x), 0.0f); }

AUTOFUSE_FORMULA double ExpDouble(double x) {
    // 2^k * e^r with |r| <= ln(2)/2; the degree-11 Taylor polynomial is accurate to about 1e-15.
    const double shift = 6755399441055744.0;  // 1.5 * 2^52: the low bits of the sum hold the integer
    const double clamped = x > 700.0 ? 700.0 : (x < -700.0 ? -700.0 : x);
    const double t = clamped * 1.4426950408889634074 + shift;
    const double k = t - shift;
    const double r = (clamped - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10;
    double p = 2.5052108385441718775e-8;
    p = p * r + 2.7557319223985890653e-7;
    p = p * r + 2.7557319223985892511e-6;
    p = p * r + 2.4801587301587301566e-5;
    p = p * r + 1.9841269841269841253e-4;
    p = p * r + 1.3888888888888889419e-3;
    p = p * r + 8.3333333333333332177e-3;
    p = p * r + 4.1666666666666664354e-2;
    p = p * r + 1.6666666666666665741e-1;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    const uint64_t scale = (BitCast<uint64_t>(t) + 1023u) << 52;
    const double value = p * BitCast<double>(scale);
    return x != x ? x : (x > 709.0 ? __builtin_inf() : (x < -745.0 ? 0.0 : value));
}

AUTOFUSE_FORMULA float TanhFloat(float x) {
    const double ax = BitCast<double>(BitCast<uint64_t>(static_cast<double>(x)) & 0x7fffffffffffffffull);
    const double e = ExpDouble(2.0 * (ax > 40.0 ? 40.0 : ax));
    const double large = (e - 1.0) / (e + 1.0);
    const double small = ax - ax * ax * ax * (1.0 / 3.0);
    const double mag = ax < 1e-3 ? small : large;
    const double value = x < 0.0f ? -mag : mag;
    return x != x || x == 0.0f ? x : static_cast<float>(value);
}
AUTOFUSE_FORMULA float GeluFloat(float x) {
    // Tanh form of the function: x * sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 x^3)).
    const double v = x;
    const double inner = 1.5957691216057308 * (v + 0.044715 * v * v * v);
    return static_cast<float>(v / (1.0 + ExpDouble(-inner)));
}
