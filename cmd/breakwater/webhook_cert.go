package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// certificate is a certificate that follows its files.
type certificate struct {
	cert, key string
	log       *slog.Logger
	held      atomic.Pointer[tls.Certificate]
	seen      [32]byte // of both files, as they were tried last
}

// load takes the files if they have changed. What does not fit together, as half
// way through a renewal, is not taken, and the one before goes on to serve.
func (c *certificate) load() error {
	cert, err := os.ReadFile(c.cert)
	if err != nil {
		return fmt.Errorf("--cert: %w", err)
	}
	key, err := os.ReadFile(c.key)
	if err != nil {
		return fmt.Errorf("--key: %w", err)
	}
	sum := sha256.Sum256(slices.Concat(cert, []byte{0}, key))
	if sum == c.seen {
		return nil
	}
	c.seen = sum
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("certificate %s: %w", c.cert, err)
	}
	c.held.Store(&pair)
	c.log.Info("certificate taken", "not_after", pair.Leaf.NotAfter, "cert", c.cert)
	return nil
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.held.Load(), nil }

// run looks every second: what Kubernetes mounts is swapped by a link, which a
// watch of the file would miss.
func (c *certificate) run(ctx context.Context) error {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		if err := c.load(); err != nil && err.Error() != said {
			said = err.Error()
			c.log.Error("certificate not taken, the one before serves", "err", err)
		} else if err == nil {
			said = ""
		}
	}
}
