package slo

import (
	"errors"
	"testing"
	"time"
)

const month = 30 * 24 * time.Hour

// promise is an objective of target over 30 days.
func promise(t testing.TB, target string) Objective {
	t.Helper()
	ppb, err := ParseTarget(target)
	if err != nil {
		t.Fatal(err)
	}
	return Objective{ID: "order-availability", Service: "order", TargetPPB: ppb, Window: month}
}

func TestSLO_S6(t *testing.T) {
	tests := []struct {
		text    string
		want    int64
		ratio   string
		percent string
	}{
		{"99.9", 999_000_000, "0.999", "99.9"},
		{"99.95", 999_500_000, "0.9995", "99.95"},
		{"99.95%", 999_500_000, "0.9995", "99.95"},
		{" 99.95 % ", 999_500_000, "0.9995", "99.95"},
		{"0.9995", 999_500_000, "0.9995", "99.95"},
		{".9995", 999_500_000, "0.9995", "99.95"},
		{"99.9999", 999_999_000, "0.999999", "99.9999"},
		{"99.9999999", 999_999_999, "0.999999999", "99.9999999"},
		{"0.999999999", 999_999_999, "0.999999999", "99.9999999"},
		{"99.90000000000", 999_000_000, "0.999", "99.9"},
		{"90", 900_000_000, "0.9", "90"},
		{"50%", 500_000_000, "0.5", "50"},
	}
	for _, tt := range tests {
		got, err := ParseTarget(tt.text)
		if err != nil || got != tt.want {
			t.Errorf("ParseTarget(%q) = %d, %v, want %d", tt.text, got, err, tt.want)
			continue
		}
		if TargetRatio(got) != tt.ratio || TargetPercent(got) != tt.percent {
			t.Errorf("%q is written %s and %s, want %s and %s", tt.text, TargetRatio(got), TargetPercent(got), tt.ratio, tt.percent)
		}
	}
}

func TestSLO_S2(t *testing.T) {
	for _, text := range []string{"100", "100%", "1.0", "1", "100.0", "0", "0%", "0.0", "101", "999", "-99.9", "", "%", ".", "nine", "99,95", "9e1", "99.99999999", "0.9999999999", "1e0", "1%", "10"} {
		if got, err := ParseTarget(text); !errors.Is(err, ErrTarget) {
			t.Errorf("ParseTarget(%q) = %d, %v, want it refused", text, got, err)
		}
	}
	if got, err := ParseTarget("99.9999"); err != nil || got != 999_999_000 {
		t.Errorf("99.9999 = %d, %v, want it accepted", got, err)
	}
}

func TestSLO_S42(t *testing.T) {
	for _, target := range []string{"99", "99.9", "99.95"} {
		b := Weigh(promise(t, target), Tally{Good: 12_345})
		if b.RemainingPPM != million || Percent(b.RemainingPPM) != "100\u202f%" || b.NoData {
			t.Errorf("at %s without failures %d ppm are left, want all", target, b.RemainingPPM)
		}
	}
	// A budget given where a target belongs.
	if _, err := ParseTarget("0.05"); !errors.Is(err, ErrTarget) {
		t.Errorf("0.05 as a target: %v, want it refused", err)
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"99.95", "0.9995", "99.95%", "100", "1", "1e9", "..", "000.9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseTarget(text)
		if err != nil {
			return
		}
		if n < whole/2 || n >= whole {
			t.Fatalf("%q gave %d", text, n)
		}
		// What is accepted is written so that it is read back as the same.
		for _, s := range []string{TargetRatio(n), TargetPercent(n) + "%"} {
			if m, err := ParseTarget(s); err != nil || m != n {
				t.Fatalf("%q gave %d, written %q, read back %d, %v", text, n, s, m, err)
			}
		}
	})
}
