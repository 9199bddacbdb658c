package toxic

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"
)

// What a request may ask for; each is called with the server's lock held.

// wanted is what a client may say of a proxy.
type wanted struct {
	Name     string `json:"name"`
	Listen   string `json:"listen"`
	Upstream string `json:"upstream"`
	Enabled  bool   `json:"enabled"`
}

func decode(r *http.Request, into any) error {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		return bad("bad request body: %v", err)
	}
	return nil
}

func (s *Server) named(r *http.Request) (*proxy, error) {
	if p := s.proxies[r.PathValue("proxy")]; p != nil {
		return p, nil
	}
	return nil, &mistake{"proxy not found", http.StatusNotFound}
}

func (s *Server) index(*http.Request) (int, any, error) {
	out := map[string]view{}
	for name, p := range s.proxies {
		out[name] = p.view()
	}
	return http.StatusOK, out, nil
}

func (s *Server) create(r *http.Request) (int, any, error) {
	in := wanted{Enabled: true}
	if err := decode(r, &in); err != nil {
		return 0, nil, err
	}
	p, err := s.add(in)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, p.view(), nil
}

func (s *Server) add(in wanted) (*proxy, error) {
	for field, value := range map[string]string{"name": in.Name, "upstream": in.Upstream} {
		if value == "" {
			return nil, bad("missing required field: %s", field)
		}
	}
	if s.proxies[in.Name] != nil {
		return nil, &mistake{"proxy already exists", http.StatusConflict}
	}
	if len(s.proxies) >= maxProxies {
		return nil, &mistake{"too many proxies", http.StatusConflict}
	}
	p := newProxy(s, in.Name, in.Listen, in.Upstream)
	if in.Enabled {
		if err := p.enable(); err != nil {
			return nil, err
		}
	}
	s.proxies[in.Name] = p
	return p, nil
}

const maxProxies = 1000

// populated is the answer to a list of proxies: those that stand, also beside an error.
type populated struct {
	*mistake
	Proxies []view `json:"proxies"`
}

func (s *Server) populate(r *http.Request) (int, any, error) {
	var list []json.RawMessage
	if err := decode(r, &list); err != nil {
		return 0, nil, err
	}
	all := make([]wanted, len(list))
	for i, raw := range list {
		all[i].Enabled = true
		if err := json.Unmarshal(raw, &all[i]); err != nil {
			return 0, nil, bad("bad request body: proxy %d: %v", i+1, err)
		}
		if all[i].Name == "" || all[i].Upstream == "" {
			return 0, nil, bad("missing required field: name or upstream at proxy %d", i+1)
		}
	}
	var done []*proxy
	for _, in := range all {
		if p := s.proxies[in.Name]; p != nil {
			if now := p.view(); (now.Listen == in.Listen || in.Listen == "") && now.Upstream == in.Upstream && now.Enabled == in.Enabled {
				done = append(done, p) // as it is, with its toxics
				continue
			}
			p.disable()
			delete(s.proxies, in.Name)
		}
		p, err := s.add(in)
		if err != nil {
			m, ok := errors.AsType[*mistake](err)
			if !ok {
				return 0, nil, err
			}
			return m.Status, populated{m, s.views(done)}, nil
		}
		done = append(done, p)
	}
	return http.StatusCreated, populated{nil, s.views(done)}, nil
}

// reset enables all proxies and takes their toxics away.
func (s *Server) reset(*http.Request) (int, any, error) {
	for _, p := range s.sorted() {
		p.clear(time.Time{})
		if err := p.enable(); err != nil {
			return 0, nil, err
		}
	}
	return http.StatusNoContent, nil, nil
}

func (s *Server) show(r *http.Request) (int, any, error) {
	p, err := s.named(r)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, p.view(), nil
}

func (s *Server) update(r *http.Request) (int, any, error) {
	p, err := s.named(r)
	if err != nil {
		return 0, nil, err
	}
	now := p.view()
	in := wanted{Listen: now.Listen, Upstream: now.Upstream, Enabled: now.Enabled}
	if err := decode(r, &in); err != nil {
		return 0, nil, err
	}
	if in.Listen != now.Listen || in.Upstream != now.Upstream || !in.Enabled {
		p.disable()
		p.mu.Lock()
		p.listen, p.upstream = in.Listen, in.Upstream
		p.mu.Unlock()
	}
	if in.Enabled {
		if err := p.enable(); err != nil {
			return 0, nil, err
		}
	}
	return http.StatusOK, p.view(), nil
}

func (s *Server) remove(r *http.Request) (int, any, error) {
	p, err := s.named(r)
	if err != nil {
		return 0, nil, err
	}
	p.disable()
	delete(s.proxies, p.name)
	return http.StatusNoContent, nil, nil
}

func (s *Server) toxics(r *http.Request) (int, any, error) {
	p, err := s.named(r)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, p.view().Toxics, nil
}

func (s *Server) halted() error {
	if s.cfg.Switch.Halted() {
		return &mistake{"halted: the kill switch of this gateway is on", http.StatusConflict}
	}
	return nil
}

func (s *Server) addToxic(r *http.Request) (int, any, error) {
	p, err := s.named(r)
	if err != nil {
		return 0, nil, err
	}
	var in input
	if err := decode(r, &in); err != nil {
		return 0, nil, err
	}
	t, err := create(in, s.cfg.Switch.Caps())
	if err != nil {
		return 0, nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.find(t.Name) >= 0 {
		return 0, nil, &mistake{"toxic already exists", http.StatusConflict}
	}
	if len(p.all) >= maxToxics {
		return 0, nil, &mistake{"too many toxics", http.StatusConflict}
	}
	p.change(append(slices.Clone(p.all), t))
	if err := s.halted(); err != nil { // looked at last: a halt wins every race
		p.change(nil)
		return 0, nil, err
	}
	return http.StatusOK, t, nil
}

const maxToxics = 100

// toxic finds the toxic that r names; the proxy's lock is held, and to be let go.
func (s *Server) toxic(r *http.Request) (*proxy, int, error) {
	p, err := s.named(r)
	if err != nil {
		return nil, 0, err
	}
	p.mu.Lock()
	i := p.find(r.PathValue("toxic"))
	if i < 0 {
		p.mu.Unlock()
		return nil, 0, &mistake{"toxic not found", http.StatusNotFound}
	}
	return p, i, nil
}

func (s *Server) showToxic(r *http.Request) (int, any, error) {
	p, i, err := s.toxic(r)
	if err != nil {
		return 0, nil, err
	}
	defer p.mu.Unlock()
	return http.StatusOK, p.all[i], nil
}

func (s *Server) updateToxic(r *http.Request) (int, any, error) {
	var in input
	if err := decode(r, &in); err != nil {
		return 0, nil, err
	}
	p, i, err := s.toxic(r)
	if err != nil {
		return 0, nil, err
	}
	defer p.mu.Unlock()
	t, err := p.all[i].apply(in, s.cfg.Switch.Caps())
	if err != nil {
		return 0, nil, err
	}
	all := slices.Clone(p.all)
	all[i] = t
	p.change(all)
	return http.StatusOK, t, nil
}

func (s *Server) removeToxic(r *http.Request) (int, any, error) {
	p, i, err := s.toxic(r)
	if err != nil {
		return 0, nil, err
	}
	defer p.mu.Unlock()
	p.change(slices.Delete(slices.Clone(p.all), i, i+1))
	return http.StatusNoContent, nil, nil
}
