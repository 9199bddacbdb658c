package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"breakwater/internal/auth"
	"breakwater/internal/conf"
	"breakwater/internal/pgtest"
	"breakwater/slo/freeze"
)

func TestAPolicyTakesThePlaceOfTheOneOfItsName(t *testing.T) {
	policy := func(name, more string) string {
		return "apiVersion: breakwater/v1\nkind: FreezePolicy\nname: " + name + "\n" + more
	}
	files := []conf.File{
		{Name: "/d/gw.yaml", Data: []byte("# routes\nkind: Route\n---\n# the shop's\n" + policy("shop", "services: [order]\n") + "---\nkind: SLO\n")},
		{Name: "/d/all.yaml", Data: []byte(policy("all", ""))},
	}
	will, at, err := withPolicy(files, "/d", "shop", policy("shop", "services: [points]\n"))
	if err != nil || at != "/d/gw.yaml" || len(will) != 2 || string(will[0].Data) != "# routes\nkind: Route\n---\n"+policy("shop", "services: [points]\n")+"---\nkind: SLO\n" || string(will[1].Data) != string(files[1].Data) {
		t.Errorf("%s, %v:\n%s", at, err, will[0].Data)
	}
	if will, at, err = withPolicy(files, "/d", "new", policy("new", "services: [x]\n")); err != nil || at != "/d/freeze-new.yaml" || len(will) != 3 || string(will[0].Data) != string(files[0].Data) {
		t.Errorf("%s, %v", at, err)
	}
	twice := append(files, conf.File{Name: "/d/b.yaml", Data: []byte(policy("all", ""))})
	if _, _, err := withPolicy(twice, "/d", "all", policy("all", "")); err == nil || !strings.Contains(err.Error(), "stands twice") {
		t.Errorf("%v", err)
	}
	taken := append(files, conf.File{Name: "/d/freeze-new.yaml", Data: []byte("kind: Route\n")})
	if _, _, err := withPolicy(taken, "/d", "new", policy("new", "")); err == nil {
		t.Error("another document would be lost")
	}
	for _, name := range []string{"../x", "a/b", "A"} {
		if _, _, err := withPolicy(files, "/d", name, policy("x", "")); err == nil {
			t.Errorf("%q is the name of a file", name)
		}
	}
}

// P9: saved, it lies among the documents, holds at once, and who did it and why is in
// the audit and among the revisions; what would be refused changes nothing.
func TestUX_P9_APolicyIsSavedAmongTheDocuments(t *testing.T) {
	d := newDesk(t, pgtest.DSN(t), controlOptions{})
	dir := t.TempDir()
	d.c.set.config, d.c.set.env = dir, "test"
	write(t, filepath.Join(dir, "gw.yaml"), goodDocument)
	ctx := auth.With(t.Context(), auth.Principal{Name: "ada", Role: auth.Admin})
	shelf := policyShelf{d.c}
	policy := func(more string) string {
		return "apiVersion: breakwater/v1\nkind: FreezePolicy\nname: shop\nservices: [order]\n" + more
	}
	for _, more := range []string{"", "levels: {warn: 20%}\n"} {
		at, err := shelf.SavePolicy(ctx, "ada", "shop", policy(more), "a calmer shop")
		if err != nil || at != filepath.Join(dir, "freeze-shop.yaml") {
			t.Fatal(at, err)
		}
		text, err := os.ReadFile(at)
		if err != nil || string(text) != policy(more) {
			t.Errorf("there lies %q, %v", text, err)
		}
		want, err := freeze.One("x", policy(more))
		if err != nil {
			t.Fatal(err)
		}
		if in := d.c.releases.book.Known().Policies; len(in) != 1 || in[0].Revision() != want.Revision() {
			t.Errorf("in force is %+v", in)
		}
	}
	// Another that rules as closely, and one that breaks the documents.
	if _, err := shelf.SavePolicy(ctx, "ada", "other", strings.Replace(policy(""), "shop", "other", 1), "a second one"); err == nil || !strings.Contains(err.Error(), "must not rule what shop rules as closely") {
		t.Errorf("two policies of one service: %v", err)
	}
	d.c.set.config = ""
	if _, err := shelf.SavePolicy(ctx, "ada", "shop", policy(""), "nowhere to go"); err == nil || !strings.Contains(err.Error(), "--config") {
		t.Errorf("without a directory: %v", err)
	}
	d.c.set.config = dir
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 2 {
		t.Errorf("there lies %v, %v", left, err)
	}
	rows, err := d.c.store.AuditRows(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	saved := 0
	for _, r := range rows {
		if r.Action == "policy.save" {
			saved++
			if r.Actor != "ada" || r.Object != "shop" || !strings.Contains(r.Detail, "a calmer shop") {
				t.Errorf("%+v", r)
			}
		}
	}
	newest, err := documentDesk{d.c}.newest(t.Context())
	if saved != 2 || err != nil || newest.By != "ada" || newest.How != "written" {
		t.Errorf("%d rows of the audit, newest revision %+v, %v", saved, newest, err)
	}
}
