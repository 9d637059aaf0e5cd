package cli

import (
	"cmp"
	"context"
	"fmt"
	"go/doc/comment"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// manCmd prints or writes manual pages.
type manCmd struct {
	Command string `arg:"" optional:"" help:"The command; without one, the page is of the program."`
	Out     string `env:"-" placeholder:"DIR" help:"Write the pages of the program and of all its commands into this directory."`

	program *Program
}

const manDetail = `NAME man | man -l - shows a page. Packages of a release bring the pages.`

// Run prints the page, or writes all.
func (c *manCmd) Run(_ context.Context, std Streams) error {
	command := c.program.command(c.Command)
	switch {
	case c.Out != "":
		return c.program.writePages(c.Out)
	case c.Command != "" && command == nil:
		return Usagef("%s: there is no such command", c.Command)
	}
	_, err := io.WriteString(std.Out, c.program.page(command))
	return err
}

// writePages writes the pages of the program and of its commands.
func (p *Program) writePages(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	pages := map[string]string{p.Name: p.page(nil)}
	for _, command := range p.all() {
		pages[p.Name+"-"+command.Name] = p.page(&command)
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(dir, name+".1"), []byte(text), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// page returns the manual page of a command in roff; that of the program, if there is none.
func (p *Program) page(command *Command) string {
	name, text, about := p.Name, p.Name+" <command>", [2]string{p.Description}
	flags := p.flags(new(common))
	if command != nil {
		name, text, about = p.Name+"-"+command.Name, p.Name+" "+command.Name, [2]string{command.Help, command.Detail}
		flags = append(flags, p.flags(command.New())...)
	}
	slices.SortStableFunc(flags, func(a, b *Flag) int {
		switch {
		case a.isArgument() == b.isArgument():
			return 0
		case a.isArgument():
			return -1
		}
		return 1
	})
	var b strings.Builder
	info, _ := debug.ReadBuildInfo()
	date, release := "", ""
	if info != nil {
		release = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.time" {
				date, _, _ = strings.Cut(s.Value, "T")
			}
		}
	}
	fmt.Fprintf(&b, ".TH %s 1 \"%s\" \"%s\" \"%s\"\n", roff(strings.ToUpper(name)), date, roff(p.Name+" "+cmp.Or(release, "(devel)")), p.Name)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(name), roff(sentence(about[0])))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fR [flags]", roff(text))
	for _, f := range flags {
		if f.isArgument() || f.has("required") {
			b.WriteString(" " + roff(f.summary()))
		}
	}
	b.WriteString("\n.SH DESCRIPTION\n")
	b.WriteString(strings.TrimPrefix(roffText(about[0]+"\n\n"+about[1]), ".PP\n"))
	if command == nil {
		b.WriteString(".SH COMMANDS\n")
		for _, c := range p.all() {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR(1)\n%s\n", roff(p.Name+"-"+c.Name), roff(c.Help))
		}
	}
	section := ""
	for _, f := range flags {
		title := ".SH OPTIONS"
		switch {
		case f.Hidden:
			continue
		case f.isArgument():
			title = ".SH ARGUMENTS"
		case f.Group != (Group{}):
			title = ".SS " + roff(strings.TrimSuffix(f.Group.Title, ":"))
		}
		if title != section {
			section = title
			b.WriteString(section + "\n")
		}
		short := ""
		if s := f.tag.Get("short"); s != "" {
			short = "-" + s + ", "
		}
		fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", roff(short+f.summary()), roff(strings.Join(strings.Fields(f.about()), " ")))
	}
	b.WriteString(".SH EXIT STATUS\n0 for success, 1 for a failure, 2 for a wrong command line.\n.SH SEE ALSO\n")
	if command != nil {
		fmt.Fprintf(&b, "\\fB%s\\fR(1),\n", roff(p.Name))
	}
	b.WriteString("https://github.com/weir\\-go/weir\n")
	return b.String()
}

// roffText returns the paragraphs, lists and commands of a text in roff.
func roffText(text string) string {
	var b strings.Builder
	printer := comment.Printer{TextWidth: -1}
	flow := func(block ...comment.Block) string {
		return roff(strings.Join(strings.Fields(string(printer.Text(&comment.Doc{Content: block}))), " "))
	}
	for _, block := range new(comment.Parser).Parse(text).Content {
		switch block := block.(type) {
		case *comment.Code:
			fmt.Fprintf(&b, ".PP\n.nf\n.RS\n%s\n.RE\n.fi\n", roff(strings.TrimSuffix(block.Text, "\n")))
		case *comment.List:
			for _, item := range block.Items {
				fmt.Fprintf(&b, ".IP \\(bu 2\n%s\n", flow(item.Content...))
			}
		default:
			fmt.Fprintf(&b, ".PP\n%s\n", flow(block))
		}
	}
	return b.String()
}

// roff escapes a text. No line of it is a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
