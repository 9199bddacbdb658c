package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// J3: a dry run is asked as one, says so, keeps nothing here either, and ends as the
// question without it would.
func TestUX_J3_GateDryRun(t *testing.T) {
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("dry_run") != "true" {
			t.Errorf("asked %s", r.URL)
		}
		_, _ = io.WriteString(w, `{"decision":"deny","state":"frozen","dry_run":true,"signature":null,"reasons":["This was a dry run: nothing was recorded, and no override was used."]}`)
	}))
	defer control.Close()
	memory := t.TempDir()
	r := verb(t, "", "gate", "order", "--dry-run", "--control", control.URL, "--memory", memory)
	r.want(t, exitNo)
	if !strings.Contains(r.out, "DENY") || !strings.Contains(r.out, "nothing was recorded") {
		t.Errorf("said %q", r.out)
	}
	if left, err := os.ReadDir(memory); err != nil || len(left) != 0 {
		t.Errorf("a dry run left %v, %v", left, err)
	}
}

func TestLabelsNameKinds(t *testing.T) {
	got, err := labelKinds("Security=security_fix, hot/fix=reliability_fix")
	if err != nil || len(got) != 2 || got["security"] != "security_fix" || got["hot/fix"] != "reliability_fix" {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"security", "security=party", "=scale"} {
		if _, err := labelKinds(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
