package config_test

import (
	"strings"
	"testing"
	"time"

	"breakwater/gateway/config"
	"breakwater/internal/conf"
)

func TestProtocols(t *testing.T) {
	const route = "\n---\napiVersion: breakwater/v1\nkind: Route\nname: r\nservice: s\nupstream: u\ntimeout: 1s\nidle_timeout: 30s\nmax_stream: 60m\nmatch: {path: /*}\n"
	const up = "apiVersion: breakwater/v1\nkind: Upstream\nname: u\nendpoints: [{address: a:1}]\n"
	const gw = "apiVersion: breakwater/v1\nkind: Gateway\nname: g\nhttp1_only: true\ntls: {cert_file: c.pem, key_file: k.pem}\nconnections: {max: 10, per_address: 2}\n---\n"
	tests := []struct {
		name, text string
		mistake    string
		protocol   string
		secure     bool
	}{
		{"the standard", up, "", "", false},
		{"said aloud", up + "protocol: http1", "", "", false},
		{"h2c", up + "protocol: h2c", "", config.H2C, false},
		{"h2", up + "protocol: h2\ntls: {server_name: x.example, ca_file: ca.pem, cert_file: c.pem, key_file: k.pem}", "", config.H2, true},
		{"TLS", up + "tls: {}", "", "", true},
		{"h2 without TLS", up + "protocol: h2", "must stand beside tls", "", false},
		{"h2c with TLS", up + "protocol: h2c\ntls: {}", "must not stand beside tls", "", false},
		{"half an identity", up + "tls: {cert_file: c.pem}", "must have both", "", false},
		{"no such protocol", up + "protocol: h3", "protocol", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log conf.Log
			cfg := config.Parse([]conf.File{{Name: "gw.yaml", Data: []byte(gw + tt.text + route)}}, &log)
			if err := log.Err(); tt.mistake != "" {
				if err == nil || !strings.Contains(err.Error(), tt.mistake) {
					t.Errorf("got %v, want %q", err, tt.mistake)
				}
				return
			} else if err != nil {
				t.Fatal(err)
			}
			u, r, g := cfg.Upstreams[0], cfg.Routes[0], cfg.Gateway
			if u.Protocol != tt.protocol || (u.TLS != nil) != tt.secure {
				t.Errorf("protocol %q, TLS %+v", u.Protocol, u.TLS)
			}
			if tt.name == "h2" && (u.TLS.ServerName != "x.example" || u.TLS.CA != "ca.pem" || *u.TLS.Identity != (config.Identity{Cert: "c.pem", Key: "k.pem"})) {
				t.Errorf("TLS %+v", u.TLS)
			}
			if r.IdleTimeout != 30*time.Second || r.MaxStream != time.Hour {
				t.Errorf("streams %v, %v", r.IdleTimeout, r.MaxStream)
			}
			if !g.HTTP1Only || *g.TLS != (config.Identity{Cert: "c.pem", Key: "k.pem"}) || g.Connections != (config.Connections{Max: 10, PerAddress: 2}) {
				t.Errorf("gateway %+v", g)
			}
		})
	}
}
