package convert

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// A layout is the format of a line: texts, and variables between them.
type layout struct {
	texts []string // one more than names
	names []string
}

// newLayout compiles a format whose variables a pattern finds; its first group is the name.
func newLayout(format string, variable *regexp.Regexp) (*layout, error) {
	l, from := new(layout), 0
	for _, at := range variable.FindAllStringSubmatchIndex(format, -1) {
		if text := format[from:at[0]]; len(l.names) > 0 && text == "" {
			return nil, fmt.Errorf("the log format has two variables side by side, without a text between them: %s", format[at[0]:at[1]])
		} else {
			l.texts = append(l.texts, text)
		}
		for group := 2; group+1 < len(at); group += 2 {
			if at[group] >= 0 {
				l.names = append(l.names, format[at[group]:at[group+1]])
				break
			}
		}
		from = at[1]
	}
	l.texts = append(l.texts, strings.TrimRight(format[from:], "\r\n"))
	return l, nil
}

// has returns the first of some names that the layout has, or "".
func (l *layout) has(names ...string) string {
	for _, want := range names {
		for _, name := range l.names {
			if name == want {
				return name
			}
		}
	}
	return ""
}

var errLayout = errors.New("the line does not have the log format")

// read calls use with each variable.
func (l *layout) read(line []byte, use func(name string, value string) error) error {
	rest, ok := bytes.CutPrefix(line, []byte(l.texts[0]))
	if !ok {
		return errLayout
	}
	for i, name := range l.names {
		end := len(rest)
		if text := l.texts[i+1]; text != "" {
			if end = bytes.Index(rest, []byte(text)); end < 0 {
				return errLayout
			}
		}
		if err := use(name, string(rest[:end])); err != nil {
			return err
		}
		rest = rest[end:]
		rest = rest[min(len(l.texts[i+1]), len(rest)):]
	}
	if len(rest) > 0 {
		return errLayout
	}
	return nil
}
