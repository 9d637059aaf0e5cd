// Package settings lets an operator change settings while a server runs, by a POST
// with a JSON object, or with form or query parameters of the same names. It also has
// types for settings that are written with a unit.
package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/bytesize"
)

// maxBody bounds a body, in bytes.
const maxBody = 1 << 20

// A Duration is a time.Duration that is written as "1.5s".
type Duration time.Duration

// MarshalText formats the duration like time.Duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText parses the duration with time.ParseDuration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 1.5s or 200ms", text)
	}
	*d = Duration(v)
	return nil
}

// A Share is a part of a whole, which is written as 1% or 0.01.
type Share float64

// UnmarshalText parses a number in [0, 1], or one in [0, 100] with a per cent sign.
func (s *Share) UnmarshalText(text []byte) error {
	number, percent := strings.CutSuffix(string(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) {
		return fmt.Errorf("%q: want a share such as 1%% or 0.01", text)
	}
	*s = Share(v)
	return nil
}

// Or returns *v, or otherwise if v is nil.
func Or[T any](v *T, otherwise T) T {
	if v == nil {
		return otherwise
	}
	return *v
}

// OrNone turns the 0 of an operator, which means none, into the -1 of a Config, where 0
// means the default.
func OrNone[T int | time.Duration](v T) T {
	if v == 0 {
		return -1
	}
	return v
}

// A Size is a number of bytes, as in files.
type Size = bytesize.Size

// Handler serves settings. GET returns the result of show as JSON. POST parses a T,
// applies it and returns the new settings; if apply returns an error, nothing must
// have changed. A setting that T does not have is an error, and so is an empty change.
func Handler[T comparable](show func() any, apply func(T) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet, http.MethodHead:
		case http.MethodPost:
			change, err := read[T](w, r)
			if err == nil {
				err = apply(change)
			}
			if err != nil {
				http.Error(w, err.Error()+"; nothing was changed", statusOf(err))
				return
			}
		default:
			w.Header().Set("Allow", "GET, HEAD, POST")
			http.Error(w, "GET shows the settings, POST changes them", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		_ = enc.Encode(show()) // the client may be gone
	})
}

var errNothing = errors.New("nothing to set: send a JSON object, or name=value")

func statusOf(err error) int {
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusBadRequest
}

func read[T comparable](w http.ResponseWriter, r *http.Request) (change T, err error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	object, err := object(r)
	if err != nil {
		return change, err
	}
	dec := json.NewDecoder(bytes.NewReader(object))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&change); err != nil {
		return change, fmt.Errorf("cannot read the settings: %w", inWords(err))
	}
	if _, err := dec.Token(); err != io.EOF {
		return change, errors.New("cannot read the settings: there is something after the JSON object")
	}
	var none T
	if change == none {
		return change, errNothing
	}
	return change, nil
}

// inWords replaces the error for a value of the wrong type, which names types of Go.
func inWords(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	name, want := wrong.Field+": ", ""
	switch wrong.Type.Kind() {
	case reflect.Struct:
		name, want = "", "a JSON object"
	case reflect.Pointer: // to a type with UnmarshalText
		want = "a duration such as 1.5s or 200ms"
	case reflect.Int:
		want = "a whole number"
	case reflect.Float64:
		want = "a number"
	case reflect.Bool:
		want = "true or false"
	case reflect.String:
		want = "a text"
	}
	return fmt.Errorf("%swant %s, got %s", name, want, wrong.Value)
}

// object returns the body if it is JSON, even if it is declared as a form, which
// curl -d does. Otherwise it makes a JSON object of the parameters: numbers, booleans
// and strings.
func object(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if trimmed := bytes.TrimSpace(body); len(trimmed) > 0 && (trimmed[0] == '{' || !isForm(r)) {
		if r.URL.RawQuery != "" {
			return nil, errors.New("give the settings in the body or in the query, not in both")
		}
		return trimmed, nil
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err := r.ParseForm(); err != nil {
		return nil, err
	}
	return fromForm(r.Form)
}

func isForm(r *http.Request) bool {
	kind := r.Header.Get("Content-Type")
	return kind == "" || strings.HasPrefix(kind, "application/x-www-form-urlencoded")
}

func fromForm(form url.Values) ([]byte, error) {
	object := map[string]any{}
	for name, values := range form {
		if len(values) != 1 {
			return nil, fmt.Errorf("%s is given %d times", name, len(values))
		}
		object[name] = values[0]
		var v any
		if json.Unmarshal([]byte(values[0]), &v) == nil {
			switch v.(type) {
			case float64, bool:
				object[name] = json.RawMessage(values[0])
			}
		}
	}
	if len(object) == 0 {
		return nil, errNothing
	}
	return json.Marshal(object)
}
