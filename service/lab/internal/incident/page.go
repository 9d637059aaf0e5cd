package incident

import (
	"fmt"
	"slices"

	"github.com/weir-go/weir/service/lab/internal/page"
)

// Tell begins a page with what happened.
func (i *Incident) Tell(p *page.Page) {
	if i.Cause == None {
		p.Answer = append(p.Answer, "No incident begins within the recording.")
		p.Bad = append(p.Bad, i.Doubts...)
		return
	}
	p.Answer = slices.Insert(p.Answer, 0, i.sentences()...)
	p.Bad = append(p.Bad, i.Doubts...)
	if len(i.Evidence) == 0 {
		return
	}
	part := page.Part{Title: "What happened", Table: &page.Table{Head: evidenceHead}}
	for _, row := range i.evidence() {
		part.Table.Rows = append(part.Table.Rows, page.Row(row...))
	}
	p.Parts = slices.Insert(p.Parts, 0, part)
}

func (i *Incident) sentences() (all []string) {
	what := "An incident is seen: " + described[i.Cause]
	for _, also := range i.Also {
		what += "; or " + described[also]
	}
	if i.Class != "" {
		what += fmt.Sprintf(" (class %s)", i.Class)
	}
	if i.Origin != 0 {
		what += fmt.Sprintf(" (origin %d)", i.Origin)
	}
	all = append(all, what+".")
	if i.Began != nil {
		all = append(all, "It began "+i.when()+".")
	}
	if i.Setting != nil {
		all = append(all, "A setting against it: "+i.Setting.String()+".")
	}
	return all
}
