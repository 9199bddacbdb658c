package web

import (
	"breakwater/slo"
)

// QuarterPart is how often freezes were passed.
type QuarterPart struct {
	Trouble string
	Rows    []QuarterRow
	Take    Take
}

// QuarterRow is a quarter, or somebody's part in it.
type QuarterRow struct {
	Name, Note                    string
	Who                           string
	Asked, Granted, Used, Revoked string
}

// quarters lists overrides by quarter and by whom, as the audit has them.
func (s *Server) quarters(v view, part *QuarterPart) sheet {
	out := sheet{name: "quarters", columns: []string{"quarter", "from", "to", "open", "who", "asked", "granted", "used", "revoked"}}
	list, err := s.cfg.Releases.Quarters(v.r.Context())
	if part.Trouble = s.read(v, "How often freezes were passed", err); err != nil {
		return out
	}
	for _, q := range list {
		row := QuarterRow{Name: q.Name, Asked: slo.Count(q.Asked), Granted: slo.Count(q.Granted), Used: slo.Count(q.Used), Revoked: slo.Count(q.Revoked)}
		if q.Open {
			row.Note = v.say("so far")
		}
		part.Rows = append(part.Rows, row)
		out.rows = append(out.rows, []field{txt(q.Name), instant(q.From), instant(q.To), yes(q.Open), {}, num(q.Asked), num(q.Granted), num(q.Used), num(q.Revoked)})
		for i, p := range q.People {
			out.rows = append(out.rows, []field{txt(q.Name), instant(q.From), instant(q.To), yes(q.Open), txt(p.Who), num(p.Asked), num(p.Granted), num(p.Used), {}})
			if i < mostPeople {
				part.Rows = append(part.Rows, QuarterRow{Who: p.Who, Asked: slo.Count(p.Asked), Granted: slo.Count(p.Granted), Used: slo.Count(p.Used)})
			}
		}
	}
	part.Take = take(v.r, "quarters")
	return out
}

// mostPeople bounds who is named under a quarter; the file has all.
const mostPeople = 10
