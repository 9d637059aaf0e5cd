package scenario

import (
	"reflect"
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"github.com/weir-go/weir/service/internal/strictyaml"
	"github.com/weir-go/weir/service/lab/internal/dist"
	"github.com/weir-go/weir/service/lab/internal/sim"
)

// A decoder reads scenarios out of a file.
type decoder struct{ *strictyaml.File }

func parse(file string, text []byte) (decoder, error) {
	f, err := strictyaml.Parse(file, text, strictyaml.Bounds{Bytes: maxBytes, Values: maxValues})
	d := decoder{f}
	if err == nil {
		type instances []sim.Group
		type serviceTime dist.ServiceTime
		type class sim.Class
		type slowStart sim.SlowStart
		f.Special = map[reflect.Type]func(ast.Node, reflect.Value, string){
			reflect.TypeFor[sim.Limit](): d.limit,
			reflect.TypeFor[sim.Instances](): scalarOr[sim.Instances, instances](d, func(all *sim.Instances) any {
				*all = make(sim.Instances, 1)
				return &(*all)[0].Count
			}),
			reflect.TypeFor[dist.ServiceTime](): scalarOr[dist.ServiceTime, serviceTime](d, func(t *dist.ServiceTime) any { return &t.Mean }),
			reflect.TypeFor[sim.Class]():        scalarOr[sim.Class, class](d, func(c *sim.Class) any { return &c.Mean }),
			reflect.TypeFor[sim.SlowStart]():    scalarOr[sim.SlowStart, slowStart](d, func(s *sim.SlowStart) any { return &s.Idle }),
		}
	}
	return d, err
}

// limit reads a number, a name, or a name with the fields of its
// configuration beside it.
func (d decoder) limit(n ast.Node, v reflect.Value, path string) {
	limit := sim.Limit{}
	if _, scalar := n.(ast.ScalarNode); scalar {
		limit.Name = strictyaml.Scalar(n)
		if units, err := strconv.Atoi(limit.Name); err == nil {
			limit = sim.Limit{Name: "fixed", N: units}
		}
		v.Set(reflect.ValueOf(limit))
		return
	}
	entries := d.Fields(n, path)
	for _, e := range entries {
		if strictyaml.Scalar(e.Key) == "name" {
			limit.Name = strictyaml.Scalar(d.Plain(e.Value))
		}
	}
	own := reflect.ValueOf(&limit).Elem()
	cfg, configured := d.Field(own, limit.Name)
	for _, e := range entries {
		name := strictyaml.Scalar(e.Key)
		field, ok := reflect.Value{}, false
		if name == "name" || name == "window" || name == "slow_start" || name == "n" && limit.Name == "fixed" {
			field, ok = d.Field(own, name)
		} else if configured && cfg.Kind() == reflect.Struct {
			field, ok = d.Field(cfg, name)
		}
		if !ok {
			d.Report(e.Key.GetToken(), strictyaml.Join(path, name), ": unknown field of the limit %q", limit.Name)
			continue
		}
		d.Decode(e.Value, field, strictyaml.Join(path, name))
	}
	v.Set(reflect.ValueOf(limit))
}

// scalarOr returns a reader of values that are a scalar, read into a part of them, or fields.
// The type fields is T without its reader.
func scalarOr[T, fields any](d decoder, part func(*T) any) func(ast.Node, reflect.Value, string) {
	return func(n ast.Node, v reflect.Value, path string) {
		if _, scalar := n.(ast.ScalarNode); !scalar {
			d.Decode(n, v.Addr().Convert(reflect.TypeFor[*fields]()).Elem(), path)
			return
		}
		var value T
		d.Decode(n, reflect.ValueOf(part(&value)).Elem(), path)
		v.Set(reflect.ValueOf(value))
	}
}
