package cli

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// A usageError reports a wrong command line.
type usageError string

func (e usageError) Error() string { return string(e) }

// Usagef returns an error that reports a wrong command line: the exit status is 2.
func Usagef(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

// A movedError names the command that replaces one.
type movedError string

func (e movedError) Error() string { return "now " + string(e) }

// Moved returns an error that names the command that replaces one: the exit status is 2.
func Moved(to string) error { return movedError(to) }

// wrongValues has what the parser says of a value that is wrong or missing, and plainer words for it.
var wrongValues = []struct {
	says  *regexp.Regexp
	plain string
}{
	{regexp.MustCompile(`expected .+ but got "EOL" \(<EOL>\)|missing value, expecting "[^"]*"`), "must have a value"},
	{regexp.MustCompile(`expected \S+ value but got ("[^"]*") \((?:short|long) flag\); perhaps try (\S+)\?`), "$1 is read as a flag: a value that begins with - is written $2"},
	{regexp.MustCompile(`expected duration but got ("[^"]*"): time: .*`), "$1: must be a time with its unit, such as 10s, 500ms or 2m"},
	{regexp.MustCompile(`expected a valid \d+ bit u?int but got ("[^"]*")`), "$1: must be a whole number"},
	{regexp.MustCompile(`expected an? (?:float|int|uint) but got ("[^"]*") \(string\)`), "$1: must be a number"},
	{regexp.MustCompile(`slog: level string ("[^"]*"): unknown name`), "$1: must be debug, info, warn or error"},
}

// plain says in plain words what is wrong with a command line.
func plain(problem string) string {
	for _, w := range wrongValues {
		problem = w.says.ReplaceAllString(problem, w.plain)
	}
	return problem
}

func (p *Program) hinted(command, problem string) string {
	if p.Hint == nil {
		return problem
	}
	return p.Hint(command, problem)
}

// checkBounds checks the flags with a bound in a tag least or most.
func checkBounds(flags []*kong.Flag) error {
	for _, f := range flags {
		v := reflect.Indirect(f.Target)
		least, most := f.Tag.Get("least"), f.Tag.Get("most")
		switch {
		case least == "" || !v.IsValid():
		case most == "" && !(number(v) >= bound(least)):
			return Usagef("--%s=%v: must be >= %s", f.Name, v, least)
		case most != "" && !(number(v) >= bound(least) && number(v) <= bound(most)):
			return Usagef("--%s=%v: must be in [%s, %s]", f.Name, v, least, most)
		}
	}
	return nil
}

func number(v reflect.Value) float64 {
	if v.CanInt() {
		return float64(v.Int())
	}
	return v.Float()
}

// bound reads a tag: a duration or a number.
func bound(text string) float64 {
	if d, err := time.ParseDuration(text); err == nil {
		return float64(d)
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err) // the tag itself is wrong
	}
	return n
}

// withOwnVariables returns the help of a flag, with the environment variables that its name does not tell.
func withOwnVariables(v *kong.Value) string {
	var own []string
	for _, name := range v.Tag.Envs {
		if name != Variable(v.Name) {
			own = append(own, "$"+name)
		}
	}
	if len(own) == 0 {
		return v.Help
	}
	return strings.TrimSuffix(v.Help, ".") + " (" + strings.Join(own, ", ") + ")."
}

// Variable returns the environment variable for a flag.
func Variable(flag string) string {
	return "WEIR_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}
