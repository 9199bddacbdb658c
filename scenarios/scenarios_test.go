package scenarios_test

import (
	"io/fs"
	"testing"

	"breakwater/injector/scenario"
	"breakwater/internal/conf"
	"breakwater/scenarios"
)

func TestLibraryReads(t *testing.T) {
	names, err := fs.Glob(scenarios.Files, "*.yaml")
	days, errDays := fs.Glob(scenarios.Files, "gamedays/*.yaml")
	if err != nil || errDays != nil || len(names) == 0 || len(days) == 0 {
		t.Fatalf("%v %v, %v, %v", names, days, err, errDays)
	}
	names = append(names, days...)
	var files []conf.File
	for _, name := range names {
		data, err := scenarios.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, conf.File{Name: name, Data: data})
	}
	set, warnings, err := scenario.Parse(files...)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v\n%v", err, warnings)
	}
	for _, s := range set.Scenarios {
		// Files are found by the id that findings speak of.
		if s.ID+".yaml" != s.File {
			t.Errorf("%s holds %s", s.File, s.ID)
		}
	}
	for _, g := range set.GameDays {
		if "gamedays/"+g.Name+".yaml" != g.File {
			t.Errorf("%s holds %s", g.File, g.Name)
		}
	}
}
