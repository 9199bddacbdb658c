package route_test

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"breakwater/gateway/route"
)

func window(t testing.TB, text string) route.Window {
	t.Helper()
	w, err := route.ParseWindow(text)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestPolicies_V84(t *testing.T) {
	w := window(t, "22:00-06:00 Asia/Shanghai")
	shanghai, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		clock string
		want  bool
	}{{"22:00:00", true}, {"05:59:59", true}, {"06:00:00", false}, {"21:59:59", false}, {"00:00:00", true}, {"12:00:00", false}}
	for _, tt := range tests {
		at, err := time.ParseInLocation(time.DateTime, "2026-03-05 "+tt.clock, shanghai)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Holds(at.UTC()); got != tt.want {
			t.Errorf("at %s: %v, want %v", tt.clock, got, tt.want)
		}
	}
}

func TestWindowHolds(t *testing.T) {
	tests := []struct {
		name, window, at string
		want             bool
	}{
		{"the night that began on a chosen day", "fri 22:00-06:00 UTC", "2026-03-07T05:59:59Z", true}, // a Saturday
		{"not the morning of that day", "fri 22:00-06:00 UTC", "2026-03-06T05:59:59Z", false},
		{"nor the night after it", "fri 22:00-06:00 UTC", "2026-03-07T22:00:00Z", false},
		{"days that run over the weekend", "fri-mon 09:00-10:00 UTC", "2026-03-08T09:30:00Z", true},
		{"a day outside of them", "fri-mon 09:00-10:00 UTC", "2026-03-10T09:30:00Z", false},
		{"a list of days", "mon,wed-thu 09:00-10:00 UTC", "2026-03-11T09:30:00Z", true},
		{"up to the end of the day", "18:00-24:00 UTC", "2026-03-08T23:59:59.999Z", true},
		{"midnight is the next day", "18:00-24:00 UTC", "2026-03-09T00:00:00Z", false},
		{"00:00 as an end is the same", "18:00-00:00 UTC", "2026-03-09T00:00:00Z", false},
		{"the whole day", "sun 00:00-24:00 UTC", "2026-03-08T00:00:00Z", true},
		{"seconds", "10:00:30-10:00:31 UTC", "2026-03-08T10:00:30.5Z", true},
		{"the day is the zone's", "mon 00:00-06:00 Asia/Shanghai", "2026-03-08T20:00:00Z", true},

		// Berlin: 2026-03-29 01:59:59 is followed by 03:00:00.
		{"an hour that the clock left out is in no window", "02:00-03:00 Europe/Berlin", "2026-03-29T01:00:00Z", false},
		{"a window round that hour ends by the clock", "01:00-03:00 Europe/Berlin", "2026-03-29T00:59:59Z", true},
		// 2026-10-25 02:59:59 is followed by 02:00:00.
		{"an hour that came twice holds at first", "02:00-03:00 Europe/Berlin", "2026-10-25T00:30:00Z", true},
		{"and again", "02:00-03:00 Europe/Berlin", "2026-10-25T01:30:00Z", true},
		{"but not a third time", "02:00-03:00 Europe/Berlin", "2026-10-25T02:00:00Z", false},
		{"overnight across the change", "22:00-06:00 Europe/Berlin", "2026-03-29T03:59:59Z", true},
		{"and its end", "22:00-06:00 Europe/Berlin", "2026-03-29T04:00:00Z", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at, err := time.Parse(time.RFC3339, tt.at)
			if err != nil {
				t.Fatal(err)
			}
			if got := window(t, tt.window).Holds(at); got != tt.want {
				t.Errorf("%s at %s: %v, want %v", tt.window, tt.at, got, tt.want)
			}
		})
	}
}

func TestParseWindowRefuses(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", "must be like"},
		{"22:00-06:00", "must be like"},
		{"mon 22:00-06:00 UTC UTC", "must be like"},
		{"22:00 UTC", "two times of day"},
		{"22:00-25:00 UTC", "two times of day"},
		{"24:00-06:00 UTC", "two times of day"},
		{"10:00-24:01 UTC", "two times of day"},
		{"10:60-11:00 UTC", "two times of day"},
		{"10:00:00:00-11:00 UTC", "two times of day"},
		{"1:00-2:00 UTC", "two times of day"},
		{"-1:00-02:00 UTC", "two times of day"},
		{"06:00-06:00 UTC", "begin where it ends"},
		{"22:00-06:00 Mars/Olympus", "must name a zone"},
		{"22:00-06:00 Local", "must name a zone"},
		{"22:00-06:00 ../UTC", "must name a zone"},
		{"monday 22:00-06:00 UTC", "must be days"},
		{"mon- 22:00-06:00 UTC", "must be days"},
		{"mon,,tue 22:00-06:00 UTC", "must be days"},
	}
	for _, tt := range tests {
		if _, err := route.ParseWindow(tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: got %v, want %q", tt.text, err, tt.want)
		}
	}
}

func FuzzParseWindow(f *testing.F) {
	for _, seed := range []string{"22:00-06:00 Asia/Shanghai", "mon-fri 09:00-17:30 Europe/Berlin", "sat,sun 00:00-24:00 UTC",
		"fri-mon 23:59:59-00:00:01 America/Sao_Paulo", "22:00-06:00", "mon,-fri 1:00-24:00 Local", "02:00-03:00 Australia/Lord_Howe"} {
		f.Add(seed, int64(1774749600))
	}
	f.Fuzz(func(t *testing.T, text string, unix int64) {
		w, err := route.ParseWindow(text)
		if err != nil {
			return
		}
		normal := w.String()
		again, err := route.ParseWindow(normal)
		if err != nil || again.String() != normal {
			t.Fatalf("%q became %q, and that %q, %v", text, normal, again, err)
		}
		// A window and what it leaves of the day are never both there, nor both away.
		words := strings.Fields(normal)
		from, until, _ := strings.Cut(words[len(words)-2], "-")
		at := time.Unix(unix%1e11, 0)
		if w.Holds(at) != again.Holds(at) {
			t.Fatalf("%q and its normal form %q differ at %v", text, normal, at)
		}
		if len(words) == 2 && until != "24:00" {
			rest, err := route.ParseWindow(until + "-" + from + " " + words[1])
			if err != nil {
				t.Fatal(err)
			}
			if w.Holds(at) == rest.Holds(at) {
				t.Fatalf("%q and %q both hold or both do not at %v", normal, rest, at)
			}
		}
	})
}
