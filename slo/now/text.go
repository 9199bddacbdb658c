package now

import (
	"fmt"
	"strings"

	"breakwater/slo"
)

// Text writes s for a terminal: the three answers first, then the causes.
func (s *Situation) Text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s", s.Headline)
	line("")
	line("WHO IS HIT      %s", s.Who.Text)
	if s.Who.Works != "" && s.State == Hit {
		line("                works: %s", s.Who.Works)
	}
	line("BY WHAT MEASURE %s", s.Measure.Text)
	acts, idle := s.Acting()
	line("WHAT PROTECTS   %s", acting(acts))
	for _, p := range acts {
		line("                + %s", p.Text)
	}
	for _, p := range idle {
		line("                - %s", p.Text)
	}
	if len(s.Causes) > 0 {
		line("")
		line("LIKELY CAUSES, the strongest first")
		for _, c := range s.Causes {
			line("%2d. %-11s %s", c.Rank, strings.ReplaceAll(string(c.Kind), "_", " "), c.Text)
			for _, d := range c.Details {
				line("                %s", d)
			}
		}
	} else if s.State == Hit || s.State == Covered {
		line("")
		line("LIKELY CAUSES   nothing stands out: failures are spread over all that is known")
	}
	if len(s.Happened) > 0 {
		line("")
		line("WHAT HAPPENED")
		for _, h := range s.Happened {
			line("  %s  %s", clock(h.At), h.Text)
		}
	}
	if s.DataUntil != nil {
		line("")
		line("Data until %s, %s before this answer.", clock(*s.DataUntil), slo.Span(max(s.At.Sub(*s.DataUntil), 0)))
	}
	return b.String()
}

// Acting parts what acts from what does not.
func (s *Situation) Acting() (acts, idle []Protection) {
	for _, p := range s.Protecting {
		if p.Acts {
			acts = append(acts, p)
		} else {
			idle = append(idle, p)
		}
	}
	return acts, idle
}

func acting(acts []Protection) string {
	switch len(acts) {
	case 0:
		return "nothing acts now"
	case 1:
		return "one protection acts"
	}
	return fmt.Sprintf("%d protections act", len(acts))
}

// Markdown writes s for a chat or an incident's notes.
func (s *Situation) Markdown() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# %s", plain(s.Headline))
	line("")
	line("- **Who is hit:** %s", plain(s.Who.Text))
	line("- **By what measure:** %s", plain(s.Measure.Text))
	acts, idle := s.Acting()
	line("- **What protects:** %s", acting(acts))
	for _, p := range acts {
		line("  - %s", plain(p.Text))
	}
	for _, p := range idle {
		line("  - not protected: %s", plain(p.Text))
	}
	if len(s.Causes) > 0 {
		line("")
		line("## Likely causes")
		line("")
		for _, c := range s.Causes {
			line("%d. **%s** %s", c.Rank, plain(c.Subject), plain(c.Text))
			for _, d := range c.Details {
				line("   - %s", plain(d))
			}
		}
	}
	if len(s.Happened) > 0 {
		line("")
		line("## What happened")
		line("")
		for _, h := range s.Happened {
			line("- %s %s", clock(h.At), plain(h.Text))
		}
	}
	return b.String()
}

// plain keeps what clients choose, such as a caller's name, from being markup.
func plain(text string) string {
	return strings.NewReplacer("\\", "\\\\", "*", "\\*", "`", "\\`", "[", "\\[", "<", "&lt;", "\n", " ").Replace(text)
}
