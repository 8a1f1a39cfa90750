package httpapi

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// completed is a form that says more than its fields: which values exclude each other, or what several make together.
type completed interface {
	// complete checks the form, and sets what convert does not. to is a pointer to the filled type of the service.
	complete(c *httpRequest, to any) error
}

// read reads a form from the body, the path and the query of a request, and fills in the type of the service. Both are pointers.
// The tags path and query name the parameter of a field, default has the text of an absent one, and required says why the field must
// be there.
func (c *httpRequest) read(form, to any) error {
	v := reflect.ValueOf(form).Elem()
	if hasBody(v.Type()) {
		if err := c.decode(form); err != nil {
			return err
		}
	}
	if err := c.readFields(v); err != nil {
		return err
	}
	assign(to, form)
	if form, ok := form.(completed); ok {
		if err := form.complete(c, to); err != nil {
			return err
		}
	}
	return c.checkBodies(v)
}

// hasBody reports whether a form has a field with a name in JSON.
func hasBody(form reflect.Type) bool {
	return slices.ContainsFunc(reflect.VisibleFields(form), func(f reflect.StructField) bool {
		name := f.Tag.Get("json")
		return f.IsExported() && name != "" && name != "-"
	})
}

func (c *httpRequest) readFields(form reflect.Value) error {
	for f, field := range form.Fields() {
		var err error
		switch query, ok := f.Tag.Lookup("query"); {
		case f.Anonymous:
			err = c.readFields(field)
		case ok:
			err = c.readParameter(c.route.parameter(query), field)
		case f.Tag.Get("path") != "":
			field.SetString(c.PathValue(f.Tag.Get("path")))
		case f.Tag.Get("default") != "" && field.IsZero():
			field.SetString(f.Tag.Get("default"))
		case f.Tag.Get("required") != "" && field.IsZero():
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			err = invalidField(name, f.Tag.Get("required"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *route) parameter(name string) *param {
	return &r.query[slices.IndexFunc(r.query, func(p param) bool { return p.name == name })]
}

// readParameter sets a field to the value of its parameter. An absent one leaves it.
func (c *httpRequest) readParameter(p *param, field reflect.Value) error {
	values := c.URL.Query()[p.name]
	switch {
	case p.required && (len(values) == 0 || values[0] == ""):
		return invalidParam(p.name, "is required")
	case len(values) == 0:
		return nil
	}
	switch field.Kind() {
	case reflect.String:
		field.SetString(values[0])
	case reflect.Slice:
		field.Set(reflect.ValueOf(values))
	case reflect.Map:
		labels, err := labelsOf(p.name, values)
		field.Set(reflect.ValueOf(labels))
		return err
	case reflect.Bool:
		field.SetBool(values[0] == "true")
		if !slices.Contains([]string{"true", "false", ""}, values[0]) {
			return invalidParam(p.name, "must be true or false")
		}
	default:
		n, err := p.number(values[0])
		field.SetInt(n)
		return err
	}
	return nil
}

// labelsOf are labels by name.
func labelsOf(param string, values []string) (map[string]string, error) {
	list := make(map[string]string)
	for _, label := range values {
		name, value, ok := strings.Cut(label, "=")
		if other, twice := list[name]; !ok || name == "" || twice && other != value {
			return nil, invalidParam(param, "must be NAME=VALUE, with one value for a name")
		}
		list[name] = value
	}
	return list, nil
}

// number is a number within the limits of the parameter's schema.
func (p *param) number(text string) (int64, error) {
	least, _ := p.schema["minimum"].(int)
	most, limited := p.schema["maximum"].(int)
	if !limited {
		most = 1 << 62
	}
	parsed, err := strconv.ParseUint(text, 10, 63)
	n := int(parsed) //nolint:gosec // of 63 bits
	switch {
	case err != nil || n > most:
		return 0, invalidParam(p.name, fmt.Sprintf("must be a number up to %d", most))
	case n < least:
		return 0, invalidParam(p.name, fmt.Sprintf("must be %d to %d", least, most))
	}
	return int64(n), nil
}

// checkBodies refuses references to bodies that the session's history does not name: otherwise a caller could refer to a body that it
// may not read. The history is searched once for all of them. A new session has none.
func (c *httpRequest) checkBodies(form reflect.Value) error {
	var fields, digests []string
	var sizes []int64
	_, creates := form.Addr().Interface().(*newSessionJSON)
	err := walk("", form, func(at string, v reflect.Value) error {
		switch p, ok := reflect.TypeAssert[givenPartJSON](v); {
		case !ok || p.Blob == nil:
		case creates:
			return invalidParam(at+".blob", "names a body, of which a new session has none: store it there")
		case p.Text != "":
			return invalidParam(at+".blob", "is not allowed with a text")
		default:
			fields, digests, sizes = append(fields, at+".blob"), append(digests, p.Blob.Digest), append(sizes, p.Blob.Size)
		}
		return nil
	})
	if err != nil || len(digests) == 0 {
		return err
	}
	ctx, cancel := context.WithDeadline(c.Context(), c.responseDeadline())
	defer cancel()
	refs, err := c.s.cfg.Service.FindBlobs(ctx, c.session, digests...)
	for i := range refs {
		if refs[i].Size != sizes[i] {
			return invalidParam(fields[i]+".size", fmt.Sprintf("is %d, the body has %d bytes", sizes[i], refs[i].Size))
		}
	}
	return err
}
