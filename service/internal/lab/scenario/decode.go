package scenario

import (
	"reflect"
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"github.com/weir-go/weir/service/internal/lab/dist"
	"github.com/weir-go/weir/service/internal/lab/sim"
	"github.com/weir-go/weir/service/internal/strictyaml"
)

// A decoder reads scenarios out of a file.
type decoder struct{ *strictyaml.File }

func parse(file string, text []byte) (decoder, error) {
	f, err := strictyaml.Parse(file, text, strictyaml.Bounds{Bytes: maxBytes, Values: maxValues})
	d := decoder{f}
	if err == nil {
		f.Special = map[reflect.Type]func(ast.Node, reflect.Value, string){
			reflect.TypeFor[sim.Limit]():        d.limit,
			reflect.TypeFor[sim.Instances]():    d.instances,
			reflect.TypeFor[dist.ServiceTime](): d.serviceTime,
			reflect.TypeFor[sim.Class]():        d.class,
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
		if name == "name" || name == "window" || name == "n" && limit.Name == "fixed" {
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

// instances reads a number of equal instances, or a list of groups.
func (d decoder) instances(n ast.Node, v reflect.Value, path string) {
	if _, scalar := n.(ast.ScalarNode); scalar {
		var group sim.Group
		d.Decode(n, reflect.ValueOf(&group.Count).Elem(), path)
		v.Set(reflect.ValueOf(sim.Instances{group}))
		return
	}
	groups := []sim.Group(nil)
	d.Decode(n, reflect.ValueOf(&groups).Elem(), path)
	v.Set(reflect.ValueOf(sim.Instances(groups)))
}

// serviceTime reads a constant duration, or the fields of a distribution.
func (d decoder) serviceTime(n ast.Node, v reflect.Value, path string) {
	if _, scalar := n.(ast.ScalarNode); scalar {
		var constant dist.ServiceTime
		d.Decode(n, reflect.ValueOf(&constant.Mean).Elem(), path)
		v.Set(reflect.ValueOf(constant))
		return
	}
	type fields dist.ServiceTime
	d.Decode(n, v.Addr().Convert(reflect.TypeFor[*fields]()).Elem(), path)
}

// class reads a constant duration, or the fields of a class.
func (d decoder) class(n ast.Node, v reflect.Value, path string) {
	if _, scalar := n.(ast.ScalarNode); scalar {
		var constant sim.Class
		d.serviceTime(n, reflect.ValueOf(&constant.ServiceTime).Elem(), path)
		v.Set(reflect.ValueOf(constant))
		return
	}
	type fields sim.Class
	d.Decode(n, v.Addr().Convert(reflect.TypeFor[*fields]()).Elem(), path)
}
