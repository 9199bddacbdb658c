package main

import (
	"strings"
	"testing"

	"breakwater/internal/conf"
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
