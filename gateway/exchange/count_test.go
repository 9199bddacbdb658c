package exchange

import (
	"strings"
	"testing"
)

func TestRetryCount(t *testing.T) {
	for in, want := range map[string]int{"": 0, "1": 1, "99": 99, "100": 99, "9999999999999999": 99, "-1": 0, "x": 0, "1 ": 0, "0": 0} {
		if got := RetryCount(in); got != want {
			t.Errorf("%q is %d, want %d", in, got, want)
		}
	}
}

func FuzzRetryCount(f *testing.F) {
	for _, s := range []string{"", "0", "1", "99", "100", "-1", "1e3", "99999999999999999999", " 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n := RetryCount(s)
		if n < 0 || n > MostRetries {
			t.Fatalf("%q is %d", s, n)
		}
		if n > 0 && strings.Trim(s, "0123456789") != "" {
			t.Fatalf("%q is %d, though it is no number", s, n)
		}
	})
}
