package httpapi

import (
	"net/http"
	"reflect"

	"github.com/lash-go/lash/session/operation"
)

// fromRow fills a route's name, summary, right, method and path from a row of the table.
func fromRow(row *operation.Row, r route) route {
	r.name, r.summary, r.needs = row.ID, row.Summary, row.Needs
	r.method, r.path = row.HTTP()
	return r
}

// operationRoute is a route of an operation. in converts the request, and out the result.
func operationRoute[In, Out any](op *operation.Op[In, Out], in func(*httpRequest) (In, error), out func(*httpRequest, Out) reply) route {
	return fromRow(&op.Row, route{handle: func(c *httpRequest) (reply, error) {
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

// jsonRoute is a route whose JSON is that of the operation's Go types: a body for a request, 204 without a result.
func jsonRoute(op operation.Served) route {
	in, out := op.Types()
	_, bodiless := in.(operation.None)
	_, silent := out.(operation.None)
	r := fromRow(op.Described(), route{long: op.TakesLong(), handle: func(c *httpRequest) (reply, error) {
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
	r.responses = noContent()
	if !bodiless {
		r.request = reflect.TypeOf(in)
	}
	if !silent {
		r.responses = map[int]reflect.Type{http.StatusOK: reflect.TypeOf(out)}
	}
	return r
}

// fromBody decodes a JSON body of type B and converts it.
func fromBody[B, In any](in func(B, *httpRequest) (In, error)) func(*httpRequest) (In, error) {
	return func(c *httpRequest) (args In, err error) {
		var b B
		if err := c.decode(&b); err != nil {
			return args, err
		}
		return in(b, c)
	}
}

// jsonReply is a reply with a JSON body.
func jsonReply[Out, R any](out func(Out) R) func(*httpRequest, Out) reply {
	return func(_ *httpRequest, got Out) reply { return reply{status: http.StatusOK, body: out(got)} }
}

func emptyReply(*httpRequest, operation.None) reply { return reply{status: http.StatusNoContent} }

// bodyRoute is a route with a JSON body of type B in the request and R in the response.
func bodyRoute[B, In, Out, R any](op *operation.Op[In, Out], in func(B, *httpRequest) (In, error), out func(Out) R) route {
	r := operationRoute(op, fromBody(in), jsonReply(out))
	r.request, r.responses = typeOf[B](), response[R](http.StatusOK)
	return r
}

// bodyRouteNoReply is a route with a JSON body of type B in the request, and an empty response.
func bodyRouteNoReply[B, In any](op *operation.Op[In, operation.None], in func(B, *httpRequest) (In, error)) route {
	r := operationRoute(op, fromBody(in), emptyReply)
	r.request, r.responses = typeOf[B](), noContent()
	return r
}

// plainRoute is a route without a request body, with R in the response.
func plainRoute[In, Out, R any](op *operation.Op[In, Out], in func(*httpRequest) (In, error), out func(Out) R) route {
	r := operationRoute(op, in, jsonReply(out))
	r.responses = response[R](http.StatusOK)
	return r
}

// plainRouteNoReply is a route without a body in the request and in the response.
func plainRouteNoReply[In any](op *operation.Op[In, operation.None], in func(*httpRequest) In) route {
	r := operationRoute(op, infallible(in), emptyReply)
	r.responses = noContent()
	return r
}

// createRoute is a route with a JSON body of type B that creates a resource; at is its path.
func createRoute[B, In, Out, R any](op *operation.Op[In, Out], in func(B, *httpRequest) (In, error), out func(Out) R, at func(*httpRequest, Out) string) route {
	r := operationRoute(op, fromBody(in), func(c *httpRequest, got Out) reply {
		return reply{status: http.StatusCreated, body: out(got), location: at(c, got)}
	})
	r.request, r.responses = typeOf[B](), response[R](http.StatusCreated)
	return r
}

func infallible[In any](in func(*httpRequest) In) func(*httpRequest) (In, error) {
	return func(c *httpRequest) (In, error) { return in(c), nil }
}

func noArgs(*httpRequest) (operation.None, error) { return operation.None{}, nil }

// withQuery adds query parameters to the route.
func (r route) withQuery(query ...param) route {
	r.query = query
	return r
}

// withErrors adds error statuses to those that all routes have.
func (r route) withErrors(status ...int) route {
	r.extraErrors = status
	return r
}

// allowUnknown makes the route accept an unknown session.
func (r route) allowUnknown() route {
	r.unknownAllowed = true
	return r
}

// withRepeated allows parameters of the route several times.
func (r route) withRepeated(names ...string) route {
	r.repeatable = names
	return r
}

// takesLong makes the route stay open for the duration of its work.
func (r route) takesLong() route {
	r.long = true
	return r
}

// withEvents makes the route a stream of these events.
func (r route) withEvents(events map[string]reflect.Type) route {
	r.events = events
	return r
}

func response[T any](status int) map[int]reflect.Type {
	return map[int]reflect.Type{status: typeOf[T]()}
}

func noContent() map[int]reflect.Type { return map[int]reflect.Type{http.StatusNoContent: nil} }
