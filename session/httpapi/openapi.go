package httpapi

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// tokenPattern is what ids match.
const tokenPattern = "^[A-Za-z0-9_-]{1,64}$"

// object is a JSON object of the document.
type object = map[string]any

func getDocument(c *httpRequest) (reply, error) {
	body, err := c.s.document()
	return reply{status: http.StatusOK, body: json.RawMessage(body)}, err
}

// document is the OpenAPI 3.1 description of a table of routes.
func document(table []route) ([]byte, error) {
	d := newDescriber()
	paths := make(map[string]object)
	for i := range table {
		r := &table[i]
		if paths[r.path] == nil {
			paths[r.path] = object{}
		}
		paths[r.path][strings.ToLower(r.method)] = d.operation(r)
	}
	if d.err != nil {
		return nil, d.err
	}
	return json.Marshal(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "lash", "version": "1",
			"description": "Sessions of LLM agents. Unknown fields and parameters are refused. The server ignores the body of a request to an operation without one. Problems have a stable code. " +
				"GET operations answer HEAD too. Streams are server-sent events, described as objects of event, id and data, which is JSON. " +
				"Requests with status 429 and 503 had no effect. Retry-After says when to repeat them; without it waiting does not help. After 504 the outcome is unknown: repeat the request only with the same Idempotency-Key.",
		},
		"servers":    []object{{"url": "/", "description": "server of this document"}},
		"security":   []object{{"bearer": []string{}}, {"certificate": []string{}}},
		"paths":      paths,
		"components": object{"schemas": d.schemas, "securitySchemes": securitySchemes()},
	})
}

// securitySchemes are the ways of authentication; a request needs one of them.
func securitySchemes() object {
	return object{
		"bearer":      object{"type": "http", "scheme": "bearer", "description": "token from the server's token file, or a signed JWT of its issuer"},
		"certificate": object{"type": "mutualTLS", "description": "client certificate that the server's token file names; used for requests without an Authorization header"},
	}
}

func (d *describer) operation(r *route) object {
	out := object{"operationId": r.name, "summary": r.summary, "responses": d.responses(r)}
	if r.needs == "" {
		out["security"] = []object{}
	} else {
		out["x-scope"], out["x-right"] = r.needs.Least(), r.needs
	}
	var params []object
	for _, name := range r.pathParams() {
		params = append(params, object{"name": name, "in": "path", "required": true, "schema": idSchema()})
	}
	for _, p := range r.query {
		params = append(params, p.in("query"))
	}
	if r.changes() {
		params = append(params, keyParam.in("header"))
	}
	for _, p := range r.header {
		params = append(params, p.in("header"))
	}
	if len(params) > 0 {
		out["parameters"] = params
	}
	if r.rawRequest {
		out["requestBody"] = object{"required": true, "content": content(octets, binary())}
	}
	if r.request != nil {
		out["requestBody"] = object{"required": true, "content": content("application/json", d.ref(r.request))}
	}
	return out
}

// in describes the parameter.
func (p *param) in(place string) object {
	return object{"name": p.name, "in": place, "required": p.required, "description": p.description, "schema": p.schema}
}

func (d *describer) responses(r *route) object {
	out := object{}
	for status, body := range r.responses {
		answer := object{"description": http.StatusText(status)}
		if body != nil {
			answer["content"] = content("application/json", d.ref(body))
		}
		if r.rawResponse {
			answer["content"] = content(octets, binary())
		}
		if r.changes() {
			answer["headers"] = object{seqHeader: object{
				"description": "sequence of the request's commit in the session's history", "schema": object{"type": "integer", "minimum": 1},
			}}
		}
		out[strconv.Itoa(status)] = answer
	}
	if r.events != nil {
		out[strconv.Itoa(http.StatusOK)] = object{"description": "server-sent events", "content": content("text/event-stream", d.messages(r.events))}
	}
	refusal := content("application/problem+json", d.ref(typeOf[problem]()))
	for _, status := range r.errorStatuses() {
		out[strconv.Itoa(status)] = object{"description": http.StatusText(status), "content": refusal}
	}
	out["default"] = object{"description": "any other error, for example a fault of the server", "content": refusal}
	return out
}

// octets is the media type of bodies of any content.
const octets = "application/octet-stream"

func binary() object { return object{"type": "string", "format": "binary"} }

func content(mediaType string, schema any) object {
	return object{mediaType: object{"schema": schema}}
}
