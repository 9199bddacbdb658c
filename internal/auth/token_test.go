package auth

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func mustAddr(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func TestIssue(t *testing.T) {
	now := time.Now()
	tests := []struct {
		name string
		tok  Token
		want string // part of the error
	}{
		{"good", Token{Name: "ci.deploy-1", Role: Pipeline, Services: []string{"order"}, ExpiresAt: now.Add(time.Hour)}, ""},
		{"no name", Token{Role: Viewer}, "token name"},
		{"a name with markup", Token{Name: "<b>", Role: Viewer}, "token name"},
		{"no role", Token{Name: "x"}, "role"},
		{"unknown role", Token{Name: "x", Role: "root"}, "role"},
		{"over before it begins", Token{Name: "x", Role: Viewer, ExpiresAt: now}, "which is over"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := &memory{}
			tt.tok.CreatedAt, tt.tok.CreatedBy = now, "test"
			secret, err := Issue(t.Context(), m, tt.tok)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || len(m.tokens)+len(m.rows) != 0 {
					t.Errorf("got %v with %d tokens, want an error about %q and nothing kept", err, len(m.tokens), tt.want)
				}
				return
			}
			if err != nil || !strings.HasPrefix(secret, "bw_") || len(secret) != 3+43 {
				t.Fatalf("got %q, %v", secret, err)
			}
			kept := m.tokens[0]
			if kept.Hash != HashOf(secret) || strings.Contains(m.rows[0].Detail, secret) {
				t.Error("the hash does not fit, or the secret is in the audit")
			}
		})
	}
	t.Run("a name is used once, even after it was revoked", func(t *testing.T) {
		m := &memory{}
		issue(t, m, Token{Name: "a", Role: Viewer})
		if err := Revoke(t.Context(), m, "test", "a", now); err != nil {
			t.Fatal(err)
		}
		if _, err := Issue(t.Context(), m, Token{Name: "a", Role: Admin, CreatedAt: now}); !errors.Is(err, ErrTaken) {
			t.Errorf("got %v, want ErrTaken", err)
		}
		if err := Revoke(t.Context(), m, "test", "a", now); !errors.Is(err, ErrNoToken) {
			t.Errorf("revoked twice: got %v, want ErrNoToken", err)
		}
	})
	t.Run("without its audit row nothing happens", func(t *testing.T) {
		m := &memory{away: errors.New("disk full")}
		if _, err := Issue(t.Context(), m, Token{Name: "a", Role: Viewer, CreatedAt: now}); err == nil || len(m.tokens) != 0 {
			t.Errorf("got %v and %d tokens", err, len(m.tokens))
		}
	})
}

func TestFirstAdmin(t *testing.T) {
	m := &memory{}
	secret, err := FirstAdmin(t.Context(), m, time.Now())
	if err != nil || secret == "" {
		t.Fatalf("got %q, %v", secret, err)
	}
	if again, err := FirstAdmin(t.Context(), m, time.Now()); err != nil || again != "" {
		t.Errorf("second start: got %q, %v, want nothing", again, err)
	}
	if err := Revoke(t.Context(), m, "test", "first-admin", time.Now()); err != nil {
		t.Fatal(err)
	}
	if again, err := FirstAdmin(t.Context(), m, time.Now()); err != nil || again != "" {
		t.Errorf("after it was revoked: got %q, %v, want nothing", again, err)
	}
}

func TestLocalGateway(t *testing.T) {
	m, dir := &memory{}, t.TempDir()
	first, err := LocalGateway(t.Context(), m, dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(GatewayTokenFile(dir)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
	if again, err := LocalGateway(t.Context(), m, dir, time.Now()); err != nil || again != first {
		t.Errorf("second start: got another token, %v", err)
	}
	t.Run("another database does not know it", func(t *testing.T) {
		other := &memory{}
		if again, err := LocalGateway(t.Context(), other, dir, time.Now()); err != nil || again == first || len(other.tokens) != 1 {
			t.Errorf("got the old token, or %v", err)
		}
	})
	t.Run("revoked", func(t *testing.T) {
		m, dir := &memory{}, t.TempDir()
		old, err := LocalGateway(t.Context(), m, dir, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := Revoke(t.Context(), m, "test", "local-gateway", time.Now()); err != nil {
			t.Fatal(err)
		}
		again, err := LocalGateway(t.Context(), m, dir, time.Now())
		if err != nil || again == old {
			t.Errorf("got the revoked token, or %v", err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, ".token-*")); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	t.Run("readable by others", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(GatewayTokenFile(dir), []byte("bw_x\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := LocalGateway(t.Context(), &memory{}, dir, time.Now()); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("got %v, want a refusal", err)
		}
	})
}

func TestScope(t *testing.T) {
	all, one := Principal{Name: "a", Role: Viewer}, Principal{Name: "b", Role: Viewer, Services: []string{"order"}}
	if !all.Covers("order") || !all.Covers("points") || !one.Covers("order") || one.Covers("points") || one.Covers("") {
		t.Error("scope is wrong")
	}
	if p := From(t.Context()); p.Covers("order") || p.May(Viewer) {
		t.Error("nobody may something")
	}
}
