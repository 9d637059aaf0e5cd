package incident

import (
	"fmt"
	"slices"

	"github.com/weir-go/weir/service/internal/table"
	"github.com/weir-go/weir/service/lab/internal/page"
)

// Tell begins a page with what happened.
func (i *Incident) Tell(p *page.Page) {
	if i.Cause == None {
		p.Answer = append(p.Answer, "No incident begins within the recording.")
		p.Bad = append(p.Bad, i.Doubts...)
		return
	}
	sentences := i.sentences("An incident is seen: ")
	parts := i.part(nil, "What happened")
	for _, other := range i.Others {
		sentences = append(sentences, other.sentences("Another incident: ")...)
		parts = other.part(parts, "Another incident, from "+table.Seconds(*other.Began)+" on")
	}
	p.Answer = slices.Insert(p.Answer, 0, sentences...)
	p.Bad = append(p.Bad, i.Doubts...)
	p.Parts = slices.Insert(p.Parts, 0, parts...)
}

// part appends the evidence, if there is any.
func (i *Incident) part(parts []page.Part, title string) []page.Part {
	if len(i.Evidence) == 0 {
		return parts
	}
	part := page.Part{Title: title, Table: &page.Table{Head: evidenceHead}}
	for _, row := range i.evidence() {
		part.Table.Rows = append(part.Table.Rows, page.Row(row...))
	}
	return append(parts, part)
}

// sentences begins with a text.
func (i *Incident) sentences(begin string) (all []string) {
	what := begin + described[i.Cause]
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
