package retry

import "time"

// Ponytail is the policy that a six-key file has where it says nothing.
func Ponytail() Config {
	return Config{
		Enabled: true, MaxRetries: 2, PerTry: 800 * time.Millisecond, OnStatus: []int{502, 503, 504},
		BackoffBase: 250 * time.Millisecond, Fallback: PassThrough,
	}
}

// Polo is the more careful preset: one retry after a second or more, none after a
// failure to connect, and none while more than 5 % of first tries fail.
func Polo() Config {
	return Config{
		Enabled: true, MaxRetries: 1, PerTry: 2 * time.Second, OnStatus: []int{502, 503, 504},
		BackoffBase: time.Second, Fallback: PassThrough, OnConnect: Never,
		Gate: ErrorGate{MaxPPM: 50_000, MinCount: 20},
	}
}

// Preset returns the policy called name.
func Preset(name string) (Config, bool) {
	switch name {
	case "ponytail":
		return Ponytail(), true
	case "polo":
		return Polo(), true
	}
	return Config{}, false
}

// Presets are their names.
func Presets() []string { return []string{"ponytail", "polo"} }
