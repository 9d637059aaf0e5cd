package cli

import (
	"cmp"
	"encoding"
	"fmt"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Flag is a flag or an argument of a command.
type Flag struct {
	Name, Help, Default string
	Group               Group    // the zero Group if it has none
	Envs                []string // the environment variables that set it; the first one that is set counts
	Hidden              bool

	choices string // some of its values, with commas between them
	tag     reflect.StructTag
	value   reflect.Value
	given   bool // on the command line
}

// A Group is a number of flags below a title in the help of a command.
type Group struct{ Key, Title string }

// flags returns the flags and arguments of a struct, in the order of their groups. Flags without a group come first: a
// user needs them first.
func (p *Program) flags(command any) []*Flag {
	all := p.fields(reflect.ValueOf(command).Elem(), "")
	slices.SortStableFunc(all, func(a, b *Flag) int { return slices.Index(p.Groups, a.Group) - slices.Index(p.Groups, b.Group) })
	return all
}

// Flags returns the flags of a command, without those of every command.
func (p *Program) Flags(command Command) []*Flag {
	return slices.DeleteFunc(p.flags(command.New()), (*Flag).isArgument)
}

// fields returns the flags of a struct in the order of its fields. Those without a group are in the given one.
func (p *Program) fields(v reflect.Value, group string) (all []*Flag) {
	for field, value := range v.Fields() {
		tag, key := field.Tag, group
		if own := tag.Get("group"); own != "" {
			key = own
		}
		if _, embedded := tag.Lookup("embed"); embedded || field.Anonymous {
			all = append(all, p.fields(value, key)...)
			continue
		}
		help, choices := strings.ReplaceAll(tag.Get("help"), "${default}", tag.Get("default")), cmp.Or(tag.Get("choices"), tag.Get("enum"))
		if help == "" {
			continue
		}
		for name, text := range p.Vars {
			help, choices = strings.ReplaceAll(help, "${"+name+"}", text), strings.ReplaceAll(choices, "${"+name+"}", text)
		}
		f := &Flag{Name: tag.Get("name"), Help: help, Default: tag.Get("default"), choices: choices, tag: tag, value: value}
		if f.Name == "" {
			f.Name = strings.ToLower(humps.ReplaceAllString(field.Name, "$1-$2"))
		}
		switch env := tag.Get("env"); {
		case env != "":
			f.Envs = strings.Split(env, ",")
		case !f.isArgument():
			f.Envs = []string{Variable(f.Name)}
		}
		if at := slices.IndexFunc(p.Groups, func(g Group) bool { return g.Key == key }); at >= 0 {
			f.Group = p.Groups[at]
		}
		f.Hidden = f.has("hidden")
		all = append(all, f)
	}
	return all
}

// humps are where a word begins in the name of a field.
var humps = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// Variable returns the environment variable for a flag.
func Variable(flag string) string {
	return "WEIR_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func (f *Flag) has(key string) bool {
	_, ok := f.tag.Lookup(key)
	return ok
}

// IsBool reports whether the flag needs no value.
func (f *Flag) IsBool() bool { return f.Type() == "bool" }

func (f *Flag) isArgument() bool { return f.has("arg") }

func (f *Flag) isList() bool { return f.value.Kind() == reflect.Slice }

// Type returns the kind of values, for package pflag.
func (f *Flag) Type() string { return strings.TrimLeft(f.value.Type().String(), "*") }

// String returns the default, for package pflag.
func (f *Flag) String() string { return f.Default }

// Set reads a value, or a further one of a list.
func (f *Flag) Set(text string) error {
	if enum := f.tag.Get("enum"); enum != "" && !slices.Contains(strings.Split(enum, ","), text) {
		return fmt.Errorf("%q: must be one of %s", text, strings.ReplaceAll(strings.TrimPrefix(enum, ","), ",", ", "))
	}
	v := f.value
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	var err error
	var want string
	switch to := v.Addr().Interface().(type) {
	case *slog.Level:
		err, want = to.UnmarshalText([]byte(text)), "debug, info, warn or error"
	case encoding.TextUnmarshaler:
		return to.UnmarshalText([]byte(text))
	case *time.Duration:
		want = "a time with its unit, such as 10s, 500ms or 2m"
		*to, err = time.ParseDuration(text)
	case *bool:
		want = "true, 1, yes, false, 0 or no"
		i := slices.Index([]string{"true", "1", "yes", "false", "0", "no"}, strings.ToLower(text))
		if *to = i < 3; i < 0 {
			err = strconv.ErrSyntax
		}
	case *float64:
		want = "a number"
		*to, err = strconv.ParseFloat(text, 64)
	case *int:
		want = "a whole number"
		var n int64
		n, err = strconv.ParseInt(text, 0, 0)
		*to = int(n)
	case *uint64:
		want = "a whole number"
		*to, err = strconv.ParseUint(text, 0, 64)
	case *[]string:
		values := []string{text}
		if commas := !f.isArgument() && !f.has("sep"); commas && text == "" {
			values = nil
		} else if commas {
			values = strings.Split(text, ",")
		}
		*to = append(*to, values...)
	default:
		v.SetString(text)
	}
	if err != nil {
		return fmt.Errorf("%q: must be %s", text, want)
	}
	return nil
}
