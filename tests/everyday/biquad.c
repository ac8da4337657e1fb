/* Second-order section, direct form II transposed, for many channels side by side. */
void biquad(int frames, int channels, float io[frames][channels], const float coef[5])
{
    const float b0 = coef[0], b1 = coef[1], b2 = coef[2], a1 = coef[3], a2 = coef[4];
    for (int ch = 0; ch < channels; ch++) {
        float z1 = 0.0f, z2 = 0.0f;
        for (int t = 0; t < frames; t++) {
            float in = io[t][ch];
            float out = b0 * in + z1;
            z1 = b1 * in - a1 * out + z2;
            z2 = b2 * in - a2 * out;
            io[t][ch] = out;
        }
    }
}
