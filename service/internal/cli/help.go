package cli

import (
	"fmt"
	"go/doc/comment"
	"io"
	"slices"
	"strings"
)

// help prints the help text of the command; that of the program, if there is none.
func (p *Program) help(w io.Writer, l *line) {
	usage, about := p.Name+" <command>", []string{p.Description}
	if l.command != nil {
		usage, about = p.Name+" "+l.command.Name, []string{l.command.Help, l.command.Detail}
	}
	arguments, flags := [][2]string{}, make([][][2]string, 1+len(p.Groups))
	for _, f := range l.flags {
		at := 1 + slices.Index(p.Groups, f.Group)
		switch short := f.tag.Get("short"); {
		case f.isArgument():
			arguments = append(arguments, [2]string{f.summary(), f.Help})
		case f.Hidden:
		case short != "":
			flags[at] = append(flags[at], [2]string{"-" + short + ", " + f.summary(), f.about()})
		default:
			flags[at] = append(flags[at], [2]string{"    " + f.summary(), f.about()})
		}
		if f.isArgument() || f.has("required") {
			usage += " " + f.summary()
		}
	}
	fmt.Fprintf(w, "Usage: %s [flags]\n", usage)
	for _, text := range about {
		if text != "" {
			fmt.Fprintf(w, "\n%s", wrap(text, width))
		}
	}
	table(w, "Arguments:", arguments)
	table(w, "Flags:", flags[0])
	for i, g := range p.Groups {
		table(w, g.Title, flags[1+i])
	}
	if l.command == nil {
		var commands [][2]string
		for _, c := range p.all() {
			commands = append(commands, [2]string{c.Name, c.Help})
		}
		table(w, "Commands:", commands)
		fmt.Fprintf(w, "\nRun \"%s <command> --help\" for more information on a command.\n", p.Name)
	}
}

// summary returns how the flag or the argument is written.
func (f *Flag) summary() string {
	text := "--" + f.Name
	switch {
	case f.isArgument() && f.isList():
		text = "<" + f.Name + "> ..."
	case f.isArgument():
		text = "<" + f.Name + ">"
	case f.isList() && f.has("sep"):
		text += "=" + f.tag.Get("placeholder")
	case f.isList():
		text += "=" + f.tag.Get("placeholder") + ",..."
	case !f.IsBool():
		text += "=" + f.tag.Get("placeholder")
	}
	if f.has("optional") {
		text = "[" + text + "]"
	}
	return text
}

// about returns the help text, with the environment variables that the name does not tell.
func (f *Flag) about() string {
	own := slices.DeleteFunc(slices.Clone(f.Envs), func(name string) bool { return name == Variable(f.Name) || name == "-" })
	if len(own) == 0 {
		return f.Help
	}
	return strings.TrimSuffix(f.Help, ".") + " ($" + strings.Join(own, ", $") + ")."
}

// width is the longest line of a help text, and widest the longest name beside its text.
const width, widest = 80, 29

// table prints rows of two columns below a title.
func table(w io.Writer, title string, rows [][2]string) {
	left := 0
	short := slices.ContainsFunc(rows, func(row [2]string) bool { return row[0][0] == '-' })
	for i, row := range rows {
		if !short {
			row[0] = strings.TrimSpace(row[0])
			rows[i] = row
		}
		if len(row[0]) <= widest {
			left = max(left, len(row[0]))
		}
	}
	for i, row := range rows {
		if i == 0 {
			fmt.Fprintf(w, "\n%s\n", title)
		}
		if len(row[0]) > widest {
			fmt.Fprintf(w, "  %s\n", row[0])
			row[0] = ""
		}
		for line := range strings.Lines(wrap(row[1], width-left-6)) {
			fmt.Fprintf(w, "  %-*s    %s", left, row[0], line)
			row[0] = ""
		}
	}
}

// wrap breaks the lines of paragraphs.
func wrap(text string, width int) string {
	printer := comment.Printer{TextWidth: width, TextCodePrefix: "    "}
	return string(printer.Text(new(comment.Parser).Parse(text)))
}
