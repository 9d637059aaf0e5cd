package origin

import (
	"errors"

	"github.com/weir-go/weir/service/internal/lab/dist"
)

// ServiceTime is a distribution of service times.
type ServiceTime = dist.ServiceTime

// validateServiceTime returns a *FieldError for the first field that is out of
// range, or nil.
func validateServiceTime(s ServiceTime) error {
	e, wrong := errors.AsType[*dist.FieldError](s.Validate())
	if !wrong {
		return nil
	}
	if e.Field == "mean" {
		e.Field = "service_time"
	}
	return &FieldError{e.Field, e.Value, e.Rule}
}
