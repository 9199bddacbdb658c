package breaker

import (
	"testing"
	"time"
)

// F18, the breaker's half: an upstream fails whole for 60 s under 200 calls a
// second. The breaker opens within two windows, and once the upstream is well all
// calls are served again, for good. The paced trial that is shipped takes the rest
// of its open time and three windows by its own rules (V-60, V-62); a table of 15 s
// asks for a short open time and the simple trial.
func TestReliability_F18_Recovery(t *testing.T) {
	quick := single()
	quick.MaxOpen, quick.HalfOpen.Simple = 10*time.Second, true
	service := Default()
	quickService := service
	quickService.MaxOpen, quickService.HalfOpen.Simple = 10*time.Second, true
	for _, tt := range []struct {
		name string
		cfg  Config
		most float64 // seconds from the heal until all is served
	}{
		{"endpoint, quick", quick, 15}, {"service, quick", quickService, 15},
		{"endpoint, shipped", single(), 40 + 30}, {"service, shipped", service, 40 + 30},
	} {
		for phase := range 10 { // where in the open time the upstream heals
			b := newBench(t, tt.cfg)
			fails, heals := 30.0, 90.0+float64(phase)
			opened, lastRefused := 0.0, 0.0
			for i := range int(200 * (heals + 180)) {
				now := float64(i) / 200
				r := Success
				if now >= fails && now < heals {
					r = Failure
				}
				passed := b.call(at(now), r)
				if !passed && opened == 0 {
					opened = now
				}
				if !passed {
					lastRefused = now
				}
			}
			if opened < fails || opened > fails+2*tt.cfg.Window.Seconds() {
				t.Errorf("%s: open at %.1f s, all fails since %.1f s", tt.name, opened, fails)
			}
			if took := lastRefused - heals; took > tt.most {
				t.Errorf("%s, healed at %.0f s: the last call is refused %.1f s later, want %.0f; %v", tt.name, heals, took, tt.most, b.turns)
			}
			b.want(at(heals+180), Closed)
		}
	}
}
