package admission

import (
	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
)

// NewAuto returns a limiter with the defaults of package inflight, for a class.
func NewAuto(string) weir.Limiter {
	l, err := inflight.New(inflight.Config{})
	if err != nil {
		panic("admission: " + err.Error()) // the zero Config is valid
	}
	return l
}
