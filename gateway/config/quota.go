package config

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"breakwater/gateway/policy/limiter"
	"breakwater/internal/conf"
)

// Quota is a rate that several gateways share.
type Quota struct {
	limiter.QuotaConfig
	Store QuotaStore `json:"store"`
}

// QuotaStore is the Redis that holds the tokens. Its password lies in a file, so
// that no configuration that is shown or sent holds one.
type QuotaStore struct {
	URL          string `json:"url"`
	Username     string `json:"username,omitempty"`
	PasswordFile string `json:"password_file,omitempty"`
}

// Quota returns the quota called name.
func (c *Config) Quota(name string) (Quota, bool) {
	for _, q := range c.Quotas {
		if q.Name == name {
			return q, true
		}
	}
	return Quota{}, false
}

// quota reads a Quota document.
func (p *parser) quota(m *conf.Map) {
	name := m.Need("name")
	q := Quota{}
	q.Name = name.Name()
	q.Rate = parseRate(m, m.Need("rate"))
	q.Key = parseKey(m.Get("key"), limiter.ByAll)
	q.Missing = limiter.Missing(m.Get("missing_key").Enum(string(limiter.PeerIP), string(limiter.PeerIP), string(limiter.Deny)))
	q.OnError = limiter.OnStoreError(m.Get("on_store_error").Enum(string(limiter.LocalShare),
		string(limiter.LocalShare), string(limiter.Open), string(limiter.Closed)))
	replicas := m.Get("replicas")
	if q.Replicas = replicas.Int(1, 1, 10_000); !replicas.Present() && q.OnError == limiter.LocalShare {
		replicas.Errorf("must be given").Hint("how many gateways share the quota: each gives out its part while the store is away").Coded("E-MISSING")
	}
	q.MaxKeys = int(m.Get("max_keys").Int(limiter.DefaultMaxKeys, 64, 1<<24))
	q.Store = parseStore(m.Need("store"))
	m.Done()
	p.cfg.Quotas = append(p.cfg.Quotas, q)
	p.quotas = append(p.quotas, name)
}

// parseStore reads the URL of a Redis, alone or with whom we are to it.
func parseStore(n conf.Node) QuotaStore {
	if !n.IsMap() {
		return QuotaStore{URL: redisURL(n)}
	}
	m := n.Map()
	s := QuotaStore{URL: redisURL(m.Need("url")), Username: m.Get("username").Str(""), PasswordFile: m.Get("password_file").Str("")}
	if at := m.Get("username"); at.Present() && s.PasswordFile == "" {
		at.Errorf("must stand beside a password_file, got none")
	}
	m.Done()
	return s
}

func redisURL(n conf.Node) string {
	s := n.Str("")
	if s == "" {
		return ""
	}
	u, err := url.Parse(s)
	switch {
	case strings.Contains(s, "@"):
		// Said without the value: it is a secret.
		n.Errorf("must hold no user and no password").Hint("use store: {url: ..., username: ..., password_file: ...}").Coded("E-SECRET")
		return ""
	case err != nil:
	case u.Scheme == "unix" && u.Host == "" && strings.HasPrefix(u.Path, "/") && len(u.Path) > 1:
		return s
	case (u.Scheme == "redis" || u.Scheme == "rediss") && storeHost(n, u) && database(u.Path) && u.RawQuery == "":
		return s
	}
	n.Errorf("must be a URL such as redis://redis:6379/0, rediss://redis:6379 or unix:///run/redis.sock, got %s", n.Got())
	return ""
}

// storeHost: what must not be an upstream must not be a store either. Names are
// looked at again when they are dialed.
func storeHost(n conf.Node, u *url.URL) bool {
	if p := u.Port(); p != "" && !portNumber(p, 1) {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		name := strings.TrimSuffix(u.Hostname(), ".")
		last := name[strings.LastIndexByte(name, '.')+1:]
		return hostName.MatchString(u.Hostname()) && (last[0] < '0' || last[0] > '9')
	}
	if why := Forbidden(ip); why != "" {
		n.Errorf("must not be %s, got %s", why, n.Got()).Coded("E-ADDRESS")
	}
	return true
}

func database(path string) bool {
	path = strings.TrimPrefix(path, "/")
	db, err := strconv.ParseUint(path, 10, 8)
	return path == "" || err == nil && strconv.FormatUint(db, 10) == path
}
