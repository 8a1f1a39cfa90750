package httpapi

import (
	"net/http"
	"reflect"

	"github.com/lash-go/lash/session/operation"
)

// from fills a route's name, summary, right, method and path from a row of the table.
func from(row *operation.Row, r route) route {
	r.name, r.summary, r.needs = row.ID, row.Summary, row.Needs
	r.method, r.path = row.HTTP()
	return r
}

// bound is a route of an operation. in converts the request, and out the result.
func bound[In, Out any](op *operation.Op[In, Out], in func(*call) (In, error), out func(*call, Out) reply) route {
	return from(&op.Row, route{handle: func(c *call) (reply, error) {
		args, err := in(c)
		if err != nil {
			return reply{}, err
		}
		got, err := op.Do(c.Context(), c.s.cfg.Service, c.session, args)
		if err != nil {
			return reply{}, err
		}
		return out(c, got), nil
	}})
}

// plain is a route whose JSON is that of the operation's Go types: a body for a request, 204 without a result.
func plain(op operation.Served) route {
	in, out := op.Types()
	_, bodiless := in.(operation.None)
	_, silent := out.(operation.None)
	r := from(op.Described(), route{long: op.TakesLong(), handle: func(c *call) (reply, error) {
		got, err := op.Perform(c.Context(), c.s.cfg.Service, c.session, func(into any) error {
			if bodiless {
				return nil
			}
			return c.decode(into)
		})
		if err != nil || silent {
			return reply{status: http.StatusNoContent}, err
		}
		return reply{status: http.StatusOK, body: got}, nil
	}})
	r.answers = none()
	if !bodiless {
		r.request = reflect.TypeOf(in)
	}
	if !silent {
		r.answers = map[int]reflect.Type{http.StatusOK: reflect.TypeOf(out)}
	}
	return r
}

// given decodes a JSON body of type B and converts it.
func given[B, In any](in func(B, *call) (In, error)) func(*call) (In, error) {
	return func(c *call) (args In, err error) {
		var b B
		if err := c.decode(&b); err != nil {
			return args, err
		}
		return in(b, c)
	}
}

// answered is a reply with a JSON body.
func answered[Out, R any](out func(Out) R) func(*call, Out) reply {
	return func(_ *call, got Out) reply { return reply{status: http.StatusOK, body: out(got)} }
}

func silent(*call, operation.None) reply { return reply{status: http.StatusNoContent} }

// ask is a route with a JSON body of type B in the request and R in the response.
func ask[B, In, Out, R any](op *operation.Op[In, Out], in func(B, *call) (In, error), out func(Out) R) route {
	r := bound(op, given(in), answered(out))
	r.request, r.answers = of[B](), ok[R](http.StatusOK)
	return r
}

// tell is a route with a JSON body of type B in the request, and an empty response.
func tell[B, In any](op *operation.Op[In, operation.None], in func(B, *call) (In, error)) route {
	r := bound(op, given(in), silent)
	r.request, r.answers = of[B](), none()
	return r
}

// bodiless is a route without a request body, with R in the response.
func bodiless[In, Out, R any](op *operation.Op[In, Out], in func(*call) (In, error), out func(Out) R) route {
	r := bound(op, in, answered(out))
	r.answers = ok[R](http.StatusOK)
	return r
}

// empty is a route without a body in the request and in the response.
func empty[In any](op *operation.Op[In, operation.None], in func(*call) In) route {
	r := bound(op, always(in), silent)
	r.answers = none()
	return r
}

// makes is a route with a JSON body of type B that creates a resource; at is its path.
func makes[B, In, Out, R any](op *operation.Op[In, Out], in func(B, *call) (In, error), out func(Out) R, at func(*call, Out) string) route {
	r := bound(op, given(in), func(c *call, got Out) reply {
		return reply{status: http.StatusCreated, body: out(got), location: at(c, got)}
	})
	r.request, r.answers = of[B](), ok[R](http.StatusCreated)
	return r
}

func always[In any](in func(*call) In) func(*call) (In, error) {
	return func(c *call) (In, error) { return in(c), nil }
}

func nothing(*call) (operation.None, error) { return operation.None{}, nil }

// taking adds query parameters to the route.
func (r route) taking(query ...param) route {
	r.query = query
	return r
}

// refusing adds error statuses to those that all routes have.
func (r route) refusing(status ...int) route {
	r.refuses = status
	return r
}

// ofAny makes the route accept an unknown session.
func (r route) ofAny() route {
	r.lenient = true
	return r
}

// repeating allows a parameter of the route several times.
func (r route) repeating(name string) route {
	r.repeats = name
	return r
}

// slow makes the route stay open for the duration of its work.
func (r route) slow() route {
	r.long = true
	return r
}

// streaming makes the route a stream of these events.
func (r route) streaming(events map[string]reflect.Type) route {
	r.events, r.held = events, true
	return r
}

func ok[T any](status int) map[int]reflect.Type { return map[int]reflect.Type{status: of[T]()} }

func none() map[int]reflect.Type { return map[int]reflect.Type{http.StatusNoContent: nil} }
