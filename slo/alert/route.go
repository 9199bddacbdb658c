package alert

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"breakwater/internal/conf"
)

// Route is one AlertRoute document: who hears of what.
type Route struct {
	Name         string
	Services     []string      // empty: all
	Envs         []string      // empty: all
	Least        Severity      // the mildest that is sent
	ResolveAfter time.Duration // 0: DefaultHold
	Receivers    []Receiver
	Queries      []Query // causes to ask a Prometheus about
}

// Type is a product that is told.
type Type string

// The types.
const (
	Alertmanager Type = "alertmanager" // API v2
	Slack        Type = "slack"        // incoming webhook
	PagerDuty    Type = "pagerduty"    // Events API v2
	Webhook      Type = "webhook"      // CloudEvents, signed
)

// Receiver is one address. What is secret lies in files, so that no document that
// is shown holds it.
type Receiver struct {
	Name         string
	Type         Type
	URL          string
	URLFile      string // of Slack, whose address is the secret
	SecretFile   string // PagerDuty's routing key, a webhook's secret, Alertmanager's bearer token
	AllowPrivate bool
}

const apiVersion = "breakwater/v1"

// pagerDuty is where events go unless a document says otherwise.
const pagerDuty = "https://events.pagerduty.com/v2/enqueue"

// ParseRoutes reads the AlertRoute documents of files; those of other kinds are
// left to their own readers. Mistakes go to log.
func ParseRoutes(files []conf.File, log *conf.Log) []Route {
	var out []Route
	for _, d := range conf.OfKind(conf.SplitAll(files, log), apiVersion, "AlertRoute") {
		r := decodeRoute(d)
		if r.Name != "" && slices.ContainsFunc(out, func(x Route) bool { return x.Name == r.Name }) {
			d.Root.Errorf("must have a name of its own, got %s again", r.Name)
		}
		for _, q := range r.Queries {
			if slices.ContainsFunc(out, func(x Route) bool {
				return slices.ContainsFunc(x.Queries, func(y Query) bool { return y.Name == q.Name })
			}) {
				d.Root.Errorf("must give each fact a name of its own, got %s again", q.Name)
			}
		}
		out = append(out, r)
	}
	return out
}

func decodeRoute(d conf.Document) Route {
	m := d.Root.Map()
	m.Need("apiVersion").Enum("", apiVersion)
	m.Need("kind").Enum("", "AlertRoute")
	r := Route{Name: m.Need("name").Name()}
	r.Services, r.Envs = m.Get("services").Strs(), m.Get("environments").Strs()
	r.Least = Severity(m.Get("severity").Enum(string(Ticket), string(Ticket), string(Freeze), string(Page)))
	r.ResolveAfter = m.Get("resolve_after").Span(0, time.Second, 24*time.Hour)
	to := m.Need("to")
	for _, item := range to.List() {
		x := decodeReceiver(item)
		if slices.ContainsFunc(r.Receivers, func(y Receiver) bool { return y.Name == x.Name }) {
			item.Errorf("must have a name of its own, got %s again", x.Name).Hint("give each a name")
		}
		r.Receivers = append(r.Receivers, x)
	}
	if to.IsList() && len(to.List()) == 0 {
		to.Errorf("must name at least one receiver")
	}
	for _, item := range m.Get("facts").List() {
		q := decodeQuery(item)
		if slices.ContainsFunc(r.Queries, func(x Query) bool { return x.Name == q.Name }) {
			item.Errorf("must have a name of its own, got %s again", q.Name)
		}
		r.Queries = append(r.Queries, q)
	}
	m.Done()
	return r
}

func decodeReceiver(n conf.Node) Receiver {
	m := n.Map()
	x := Receiver{Type: Type(m.Need("type").Enum("", string(Alertmanager), string(Slack), string(PagerDuty), string(Webhook)))}
	x.Name = m.Get("name").Name()
	if x.Name == "" {
		x.Name = string(x.Type)
	}
	x.URL, x.URLFile, x.SecretFile = address(m.Get("url")), m.Get("url_file").Str(""), m.Get("secret_file").Str("")
	x.AllowPrivate, _ = m.Get("allow_private").Bool(false)
	switch x.Type {
	case PagerDuty:
		if x.URL == "" {
			x.URL = pagerDuty
		}
		m.Need("secret_file")
	case Webhook:
		m.Need("secret_file")
		m.Need("url")
	case Slack:
		if (x.URL == "") == (x.URLFile == "") {
			n.Errorf("must have either url or url_file").Hint("whoever knows the address of a Slack webhook can post: a file keeps it secret")
		}
	case Alertmanager:
		m.Need("url")
	}
	m.Done()
	return x
}

func address(n conf.Node) string {
	text := n.Str("")
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || strings.ContainsAny(u.Host, " ") {
		n.Errorf("must be an http or https URL without a user, got %s", n.Got())
		return ""
	}
	return text
}

func (r Route) matches(i Incident) bool {
	return (len(r.Services) == 0 || slices.Contains(r.Services, i.Service)) && (len(r.Envs) == 0 || slices.Contains(r.Envs, i.Env)) &&
		i.Severity.rank() >= r.Least.rank()
}

// recipients names who hears of kind about i: updates go to Alertmanager alone,
// which forgets what is not sent again; an acknowledgement to who can show it.
func recipients(routes []Route, i Incident, kind Kind) []string {
	var out []string
	for _, r := range routes {
		if !r.matches(i) {
			continue
		}
		for _, x := range r.Receivers {
			if kind == Update && x.Type != Alertmanager || kind == Acked && x.Type != PagerDuty && x.Type != Webhook {
				continue
			}
			out = append(out, r.Name+"/"+x.Name)
		}
	}
	return out
}

// Find returns the receiver that a delivery names.
func Find(routes []Route, name string) (Receiver, bool) {
	route, receiver, _ := strings.Cut(name, "/")
	for _, r := range routes {
		if r.Name != route {
			continue
		}
		for _, x := range r.Receivers {
			if x.Name == receiver {
				return x, true
			}
		}
	}
	return Receiver{}, false
}

// holdOf is the shortest that a matching route asks for.
func holdOf(routes []Route) func(service, env string) time.Duration {
	return func(service, env string) time.Duration {
		least := time.Duration(0)
		for _, r := range routes {
			if r.ResolveAfter > 0 && r.matches(Incident{Service: service, Env: env, Severity: Page}) && (least == 0 || r.ResolveAfter < least) {
				least = r.ResolveAfter
			}
		}
		if least == 0 {
			return DefaultHold
		}
		return least
	}
}
