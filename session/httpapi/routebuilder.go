package httpapi

import (
	"cmp"
	"net/http"
	"reflect"
	"strings"

	"github.com/lash-go/lash/session/operation"
)

// of fills in what a row of the table says, and the handler of a route without one of its own: it reads the request by the form of
// the operation's type, or by the type itself, performs it, and shows the result likewise.
func (r route) of(row *operation.Row) route {
	r.name, r.summary, r.needs = row.ID, row.Summary, row.Needs
	r.method, r.path = row.HTTP()
	if r.handle != nil {
		return r
	}
	form, status := cmp.Or(r.in, reflect.TypeOf(row.In)), http.StatusOK
	r.out = cmp.Or(r.out, reflect.TypeOf(row.Out))
	if hasBody(form) {
		r.request = form
	}
	switch {
	case r.out == typeOf[operation.None]():
		r.out, status = nil, http.StatusNoContent
	case r.made != "":
		status = http.StatusCreated
	}
	r.responses = map[int]reflect.Type{status: r.out}
	r.handle = func(c *httpRequest) (reply, error) {
		got, err := row.Perform(c.Context(), c.s.cfg.Service, c.session, func(to any) error { return c.read(reflect.New(form).Interface(), to) })
		if err != nil || r.out == nil {
			return reply{status: status}, err
		}
		answer := reply{status: status, body: shown(reflect.New(r.out).Interface(), got)}
		if r.made != "" {
			answer.location = c.locate(r.made, reflect.ValueOf(answer.body).Elem().FieldByName("ID").String())
		}
		return answer, nil
	}
	return r
}

// locate is the path of a resource, in a collection of the session or of the API.
func (c *httpRequest) locate(collection, id string) string {
	if !strings.HasPrefix(collection, "/v1/") {
		collection = "/v1/sessions/" + string(c.session) + collection
	}
	return collection + id
}

// withBody wraps a handler that needs a decoded JSON body.
func withBody[T any](f func(*httpRequest, T) (reply, error)) func(*httpRequest) (reply, error) {
	return func(c *httpRequest) (reply, error) {
		var in T
		if err := c.decode(&in); err != nil {
			return reply{}, err
		}
		return f(c, in)
	}
}

func response[T any](status int) map[int]reflect.Type {
	return map[int]reflect.Type{status: typeOf[T]()}
}
