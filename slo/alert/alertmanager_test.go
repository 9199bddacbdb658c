package alert

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// realAlertmanager starts the real product; what it sends to its webhook comes out of the
// channel.
func realAlertmanager(t *testing.T) (url string, sent <-chan []byte) {
	t.Helper()
	product, err := exec.LookPath("prometheus-alertmanager") // Debian's name of it
	if err != nil {
		product, err = exec.LookPath("alertmanager")
	}
	switch {
	case err != nil && testing.Short():
		t.Skip("no Alertmanager here: make test installs one")
	case err != nil:
		t.Fatal("no Alertmanager here: type .ci/need prometheus-alertmanager")
	}
	out := make(chan []byte, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Authorization") != "Bearer token-of-ours" {
			t.Errorf("it sends %q, %v", r.Header.Get("Authorization"), err)
		}
		out <- body
	}))
	t.Cleanup(hook.Close)
	dir := t.TempDir()
	config := filepath.Join(dir, "am.yml")
	text := fmt.Sprintf(`route: {receiver: breakwater, group_by: ["..."], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}
receivers:
  - name: breakwater
    webhook_configs:
      - {url: %q, send_resolved: true, http_config: {authorization: {credentials: token-of-ours}}}
`, hook.URL)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(product, "--config.file", config, "--storage.path", dir, "--web.listen-address", "127.0.0.1:0", "--cluster.listen-address", "")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	listens, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if m := regexp.MustCompile(`Listening on.*address=(127\.0\.0\.1:[0-9]+)`).FindStringSubmatch(lines.Text()); m != nil {
				listens <- m[1]
			}
		}
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended; _ = cmd.Wait() }) // says it was killed
	select {
	case at := <-listens:
		return "http://" + at, out
	case <-ended:
		t.Fatal("Alertmanager ended at once")
	case <-time.After(time.Minute):
		t.Fatal("Alertmanager does not listen")
	}
	return "", nil
}

// The real Alertmanager takes our incidents as alerts that are what we mean, passes
// them on, ends them; and what it sends back is read as it means it.
func TestARealAlertmanager(t *testing.T) {
	url, sent := realAlertmanager(t)
	now := time.Now().UTC()
	i := Incident{ID: "i-1", Service: "order", Env: "prod", Class: Errors, Tier: L1, Severity: Ticket, Title: "order (prod): it burns", OpenedAt: now.Add(-time.Minute),
		Context: Context{Burn: "burns at 20× over 1 h", Left: "60 % is left", TopCode: "50003: 70 %"}}
	to := Receiver{Type: Alertmanager, URL: url, AllowPrivate: true}
	sender := Sender{Pages: "https://breakwater.example.com"}
	type shown struct {
		Labels, Annotations map[string]string
		Status              struct{ State string }
		EndsAt              time.Time
		GeneratorURL        string
	}
	active := func() (list []shown) {
		res, err := http.Get(url + "/api/v2/alerts?active=true")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if err := json.NewDecoder(res.Body).Decode(&list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	say := func(kind Kind) {
		t.Helper()
		if err := sender.Send(t.Context(), to, Message{ID: "m-" + string(kind), Kind: kind, At: time.Now(), Incident: i}, time.Now()); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
	}
	next := func(status string) []byte {
		t.Helper()
		for {
			select {
			case body := <-sent:
				var n struct{ Status string }
				if err := json.Unmarshal(body, &n); err != nil {
					t.Fatal(err)
				}
				if n.Status == status {
					return body
				}
			case <-time.After(time.Minute):
				t.Fatalf("Alertmanager sends nothing %s", status)
			}
		}
	}
	say(Opened)
	if list := active(); len(list) != 1 || list[0].Labels["alertname"] != "BreakwaterErrors" || list[0].Labels["severity"] != "ticket" || list[0].Labels["incident"] != "i-1" ||
		!strings.Contains(list[0].Annotations["description"], "50003: 70 %") || list[0].GeneratorURL != "https://breakwater.example.com/now?incident=i-1" {
		t.Errorf("opened: %+v", list)
	}
	body := next("firing")
	if all, skipped, err := FromAlertmanager(body, time.Now()); err != nil || len(all) != 0 || len(skipped) != 1 || !strings.Contains(skipped[0].Why, "sent back") {
		t.Errorf("our own incident comes round: %+v %+v, %v", all, skipped, err)
	}
	i.Severity = Page
	say(Escalated)
	if list := active(); len(list) != 1 || list[0].Labels["severity"] != "page" {
		t.Errorf("escalated: %+v", list)
	}
	say(Update)
	if list := active(); len(list) != 1 || time.Until(list[0].EndsAt) < time.Minute {
		t.Errorf("updated: %+v", list)
	}
	at := time.Now().UTC()
	i.ClosedAt = &at
	say(Resolved)
	if list := active(); len(list) != 0 {
		t.Errorf("resolved: %+v", list)
	}
	next("resolved")

	// An alert of somebody else's, through the same product.
	started := time.Now().Add(-time.Minute).UTC()
	post := func(ends time.Time) {
		t.Helper()
		text, err := json.Marshal([]amAlert{{Labels: map[string]string{"alertname": "PoolFull", "service": "points", "env": "prod", "severity": "critical"},
			Annotations: map[string]string{"summary": "96 of 100"}, StartsAt: started, EndsAt: ends}})
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.Post(url+"/api/v2/alerts", "application/json", bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != 200 {
			t.Fatalf("answered %d", res.StatusCode)
		}
	}
	foreign := func(status string) Foreign {
		t.Helper()
		for {
			all, _, err := FromAlertmanager(next(status), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if len(all) == 1 && all[0].Service == "points" {
				return all[0]
			}
		}
	}
	post(time.Now().Add(time.Hour))
	first := foreign("firing")
	if first.Tier != L1 || first.Name != "PoolFull" || first.Env != "prod" || first.Text != "96 of 100" || first.Fingerprint == "" || !first.To.IsZero() || first.From.Sub(started).Abs() > time.Second {
		t.Errorf("fired: %+v", first)
	}
	post(time.Now())
	if over := foreign("resolved"); over.Fingerprint != first.Fingerprint || !over.From.Equal(first.From) || over.To.IsZero() {
		t.Errorf("over: %+v, it began as %+v", over, first)
	}
}
