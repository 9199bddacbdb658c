package gateway

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/exchange"
	"breakwater/gateway/front"
	"breakwater/gateway/wire"
)

// transport is an upstream's innermost service.
type transport interface {
	exchange.Service
	Idle(endpoint string) int
	Tick(now time.Time)
	Close()
}

// secured is an upstream's TLS. print is of all that makes a connection another
// one: a file that was renewed counts from the next configuration on.
type secured struct {
	cfg   *tls.Config // nil: none
	print string
}

// secure reads the files that ups name, for wire.
func (r *registry) secure(ups []config.Upstream) error {
	all := map[string]secured{}
	for _, up := range ups {
		s, err := upstreamTLS(up.TLS)
		if err != nil {
			return fmt.Errorf("upstream %s: %w", up.Name, err)
		}
		all[up.Name] = s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secured = all
	return nil
}

// open makes the transport of up.
func (r *registry) open(up config.Upstream, secure *tls.Config) transport {
	cfg := wire.Config{Dial: r.dial, ConnectTimeout: up.ConnectTimeout, HeaderTimeout: up.HeaderTimeout, Timed: r.timed}
	switch {
	case up.Protocol == config.H2 || up.Protocol == config.H2C:
		return wire.NewH2(cfg, secure)
	case secure != nil:
		return wire.NewTLSPool(cfg, secure)
	}
	return wire.NewPool(cfg)
}

func upstreamTLS(t *config.UpstreamTLS) (secured, error) {
	if t == nil {
		return secured{}, nil
	}
	cfg := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q", t.ServerName)
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return secured{}, fmt.Errorf("read tls.ca_file: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return secured{}, fmt.Errorf("read tls.ca_file: %s holds no certificate", t.CA)
		}
		sum.Write(pem)
	}
	if t.Identity != nil {
		cert, err := tls.LoadX509KeyPair(t.Identity.Cert, t.Identity.Key)
		if err != nil {
			return secured{}, fmt.Errorf("read tls.cert_file and tls.key_file: %w", err)
		}
		cfg.Certificates = []tls.Certificate{cert}
		for _, der := range cert.Certificate {
			sum.Write(der)
		}
	}
	return secured{cfg, hex.EncodeToString(sum.Sum(nil))}, nil
}

// listening is how connections of a configuration are taken.
func listening(g config.Gateway) (front.Listening, error) {
	l := front.Listening{HTTP1Only: g.HTTP1Only, Max: g.Connections.Max, PerAddress: g.Connections.PerAddress, Fast: g.Front != config.FrontStandard}
	if g.TLS == nil {
		return l, nil
	}
	cert, err := newCertificate(*g.TLS)
	if err != nil {
		return l, err
	}
	l.TLS = &tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: cert.get, NextProtos: []string{"h2", "http/1.1"},
		// Of TLS 1.2 what HTTP/2 permits (RFC 9113 section 9.2.2).
		CipherSuites: []uint16{
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		},
	}
	if g.HTTP1Only {
		l.TLS.NextProtos = []string{"http/1.1"}
	}
	return l, nil
}

// certificate is a listener's own, read again when its files have changed: they
// are renewed by whoever renews them, and connections are not to be lost for it.
type certificate struct {
	files  config.Identity
	now    atomic.Pointer[loaded]
	lookAt atomic.Int64 // when to look at the files again, in Unix seconds
}

type loaded struct {
	cert     tls.Certificate
	modified [2]time.Time
}

// lookEvery is how often a certificate's files are looked at, at most.
const lookEvery = 10

func newCertificate(files config.Identity) (*certificate, error) {
	c := &certificate{files: files}
	if err := c.load(); err != nil {
		return nil, err
	}
	c.lookAt.Store(time.Now().Unix() + lookEvery)
	return c, nil
}

func (c *certificate) load() error {
	var l loaded
	var err error
	if l.modified, err = c.modified(); err != nil {
		return err
	}
	if l.cert, err = tls.LoadX509KeyPair(c.files.Cert, c.files.Key); err != nil {
		return fmt.Errorf("read tls.cert_file and tls.key_file: %w", err)
	}
	c.now.Store(&l)
	return nil
}

func (c *certificate) modified() (at [2]time.Time, err error) {
	for i, name := range []string{c.files.Cert, c.files.Key} {
		info, serr := os.Stat(name)
		if serr != nil {
			err = errors.Join(err, serr)
			continue
		}
		at[i] = info.ModTime()
	}
	return at, err
}

// get implements tls.Config.GetCertificate. Files that are half written, or gone,
// leave the certificate that served before.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	now, due := time.Now().Unix(), c.lookAt.Load()
	if now >= due && c.lookAt.CompareAndSwap(due, now+lookEvery) {
		if at, err := c.modified(); err == nil && at != c.now.Load().modified {
			_ = c.load() // tried again at the next look
		}
	}
	return &c.now.Load().cert, nil
}
