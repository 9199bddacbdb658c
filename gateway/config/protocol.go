package config

import "breakwater/internal/conf"

// Protocols of upstreams.
const (
	HTTP1 = "http1"
	H2    = "h2"  // under TLS
	H2C   = "h2c" // in the clear, by prior knowledge
)

// Faces of the listener, for plain HTTP/1.1.
const (
	FrontAuto     = "auto"     // the fast one where it can, net/http for all else
	FrontStandard = "standard" // net/http for everything
)

// Identity is a certificate and its key, as files in PEM.
type Identity struct {
	Cert string `json:"cert_file"`
	Key  string `json:"key_file"`
}

// UpstreamTLS says how an upstream is known, and what we show it.
type UpstreamTLS struct {
	// ServerName is whom the certificate must be for; "": the endpoint's host.
	ServerName string `json:"server_name,omitempty"`
	// CA is a file of the authorities that count; "": those of the system.
	CA string `json:"ca_file,omitempty"`
	// Identity is shown to upstreams that ask; nil: none.
	Identity *Identity `json:"identity,omitempty"`
}

// Connections caps what clients hold at a time; 0: the standard.
type Connections struct {
	Max        int `json:"max,omitempty"`
	PerAddress int `json:"per_address,omitempty"`
}

// parseListener reads how clients are taken.
func parseListener(m *conf.Map, g *Gateway) {
	if t := m.Get("tls"); t.Present() {
		secure := t.Map()
		g.TLS = &Identity{Cert: secure.Need("cert_file").Str(""), Key: secure.Need("key_file").Str("")}
		secure.Done()
	}
	g.HTTP1Only, _ = m.Get("http1_only").Bool(false)
	if g.Front = m.Get("front").Enum("", FrontAuto, FrontStandard); g.Front == FrontAuto {
		g.Front = "" // written or not, it is the same configuration
	}
	caps := m.Get("connections").Map()
	g.Connections.Max = int(caps.Get("max").Int(0, 1, 1_000_000))
	g.Connections.PerAddress = int(caps.Get("per_address").Int(0, 1, 1_000_000))
	caps.Done()
}

// parseProtocol reads how an upstream is spoken to.
func parseProtocol(m *conf.Map, u *Upstream) {
	at := m.Get("protocol")
	u.Protocol = at.Enum("", HTTP1, H2, H2C)
	if u.Protocol == HTTP1 {
		u.Protocol = "" // written or not, it is the same configuration
	}
	t := m.Get("tls")
	if t.Present() {
		secure := t.Map()
		u.TLS = &UpstreamTLS{ServerName: host(secure.Get("server_name")), CA: secure.Get("ca_file").Str("")}
		cert, key := secure.Get("cert_file"), secure.Get("key_file")
		if cert.Present() != key.Present() {
			t.Errorf("must have both cert_file and key_file, got one of them").Coded("E-TLS")
		} else if cert.Present() {
			u.TLS.Identity = &Identity{Cert: cert.Str(""), Key: key.Str("")}
		}
		secure.Done()
	}
	switch {
	case u.Protocol == H2 && !t.Present():
		at.Errorf("must stand beside tls, got h2 alone").Hint("tls: {} takes the system's authorities; h2c is HTTP/2 without TLS").Coded("E-TLS")
	case u.Protocol == H2C && t.Present():
		at.Errorf("must not stand beside tls, got h2c").Hint("h2 is HTTP/2 under TLS").Coded("E-TLS")
	}
}
