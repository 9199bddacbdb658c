package config_test

import (
	"strings"
	"testing"

	"breakwater/gateway/config"
	"breakwater/internal/conf"
)

// TestFront: the face of the listener is one of two, and auto is the same
// configuration whether it is written or not.
func TestFront(t *testing.T) {
	for _, tt := range []struct{ line, want, mistake string }{
		{"", "", ""},
		{"front: standard\n", config.FrontStandard, ""},
		{"front: auto\n", "", ""},
		{"front: fast\n", "", "gw.yaml:4:8: front: must be"},
	} {
		var log conf.Log
		cfg := config.Parse([]conf.File{{Name: "gw.yaml", Data: []byte("apiVersion: breakwater/v1\nkind: Gateway\nname: g\n" + tt.line)}}, &log)
		text := ""
		if err := log.Err(); err != nil {
			text = err.Error()
		}
		if tt.mistake == "" && (text != "" || cfg.Gateway.Front != tt.want) || !strings.Contains(text, tt.mistake) {
			t.Errorf("%q: got %q, %s, want %q, %q", tt.line, cfg.Gateway.Front, text, tt.want, tt.mistake)
		}
	}
}
