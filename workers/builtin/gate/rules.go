package gate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/lash-go/lash/session/plugin"
)

// subject is the command, or the file, of a call.
type subject struct {
	command     string            // empty if the call runs none
	paths       []string          // names of one file, see [Names]; empty if the call has none
	cwd         []string          // names of the directory of a command
	dirs        []string          // these and those of another reading, each with a / at its end
	places      map[string]string // where the path and the cwd lead, by argument; empty if links are not followed
	environment string            // that the call names
	twice       string            // a field of these that the call has twice: tools of other languages may read another value than this package
}

// twice is the first of the fields that rules judge which an object has more than once, without regard to case; empty
// if there is none.
func twice(args json.RawMessage) string {
	seen, depth, key := make(map[string]bool), 0, false
	for d := json.NewDecoder(bytes.NewReader(args)); ; {
		token, err := d.Token()
		if err != nil {
			return ""
		}
		switch t := token.(type) {
		case json.Delim:
			if t == '{' || t == '[' {
				depth++
			} else {
				depth--
			}
			key = depth == 1
			continue
		case string:
			if key && depth == 1 && slices.ContainsFunc([]string{"command", "path", "cwd", "environment"}, func(name string) bool { return strings.EqualFold(name, t) }) {
				name := folded(t)
				if seen[name] {
					return t
				}
				seen[name] = true
			}
		}
		key = depth == 1 && !key
	}
}

// subjectOf reads the arguments of a call. Its paths are those of the environment in which the call runs. Without that it has no places: an
// error.
func (g gate) subjectOf(in plugin.ToolContext) (subject, error) {
	var known struct {
		Command     string `json:"command"`
		Path        string `json:"path"`
		Cwd         string `json:"cwd"`
		Environment string `json:"environment"`
	}
	_ = json.Unmarshal(in.Args, &known) // any other JSON has no subject
	s := subject{command: strings.TrimSpace(known.Command), twice: twice(in.Args)}
	where, err := in.Call.Environment(known.Environment)
	if err == nil && known.Environment != "" {
		s.environment = where.Name
	}
	if err != nil { // the tool refuses the name, or means something else by it
		where, err = in.Call.Environment("")
	}
	if err != nil && known.Path+known.Cwd != "" {
		return s, err
	}
	root := cmp.Or(where.Dir, g.root)
	s.places = make(map[string]string)
	judge := func(arg, name string) []string {
		names := Names(root, name)
		if root != "" {
			s.places[arg] = names[len(names)-1]
		}
		return names
	}
	if known.Path != "" {
		s.paths = judge("path", known.Path)
	}
	if known.Cwd != "" { // some tools read an absolute path as relative to the directory
		s.cwd = judge("cwd", known.Cwd)
		for _, name := range slices.Concat(s.cwd, Names(root, "./"+known.Cwd)) {
			s.dirs = append(s.dirs, strings.TrimSuffix(name, "/")+"/")
		}
	}
	return s, nil
}

// Names are the paths of a file below a directory, for rules: the given one in its shortest form, and the one that
// links lead to, if it differs. That one is absolute if it is outside. A file that does not exist has the name that
// it would get. Without a directory links are not followed.
func Names(root, name string) []string {
	names := []string{path.Clean(name)}
	if root == "" || strings.IndexByte(name, 0) >= 0 {
		return names
	}
	root = real(root)
	to := filepath.FromSlash(names[0])
	if !filepath.IsAbs(to) {
		to = filepath.Join(root, to)
	}
	to = real(to)
	if inside, err := filepath.Rel(root, to); err == nil && filepath.IsLocal(inside) {
		to = inside
	}
	if to = filepath.ToSlash(to); to != names[0] {
		names = append(names, to)
	}
	return names
}

// At are the names of the file or directory that an argument of a call gives, see [Names]; the last one is its place. The call is
// refused if that is not the place that the rules judged.
func At(root, arg, name string, call plugin.Call) ([]string, error) {
	names := Names(root, name)
	if was, judged := call.Places[arg]; judged && was != names[len(names)-1] {
		return nil, &plugin.Failure{
			Class: plugin.ClassPermissionDenied, Code: ID,
			Message: fmt.Sprintf("%s: %s was %s when the call was judged, and is %s now: call again", arg, names[0], was, names[len(names)-1]),
		}
	}
	return names, nil
}

// NotThere is the refusal of a call that could not open its place. It names both places where the path leads to another one by now.
func NotThere(root, arg, name, place string, err error) error {
	if _, moved := At(root, arg, name, plugin.Call{Places: map[string]string{arg: place}}); moved != nil {
		return moved
	}
	return plugin.InvalidArgs("%s: %s: %v", arg, name, err)
}

// Cwd is the place of the directory that a call gives its command, below root or absolute, without links; empty without one.
func Cwd(root, cwd string, call plugin.Call) (string, error) {
	if cwd == "" {
		return "", nil
	}
	names, err := At(root, "cwd", cwd, call)
	if err != nil {
		return "", err
	}
	return names[len(names)-1], nil
}

// maxLinks limits the links of one path, like the system.
const maxLinks = 40

// real is the absolute path of a file without links. If the file does not exist, or has too many links, the rest of
// the path stays as it is: no file can be opened by it.
func real(name string) string {
	name, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	const slash = string(filepath.Separator)
	done := filepath.VolumeName(name) + slash
	rest := strings.Split(strings.TrimPrefix(name, done), slash)
	for links := 0; len(rest) > 0; {
		next := inItsForm(filepath.Join(done, rest[0])) // links before the .. are resolved
		rest = rest[1:]
		target, err := os.Readlink(next)
		if err != nil {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return filepath.Join(append([]string{next}, rest...)...)
		}
		if filepath.IsAbs(target) {
			done = filepath.VolumeName(target) + slash
			target = strings.TrimPrefix(target, done)
		}
		rest = append(strings.Split(target, slash), rest...)
	}
	return done
}

// inItsForm is a path whose last name is in the normal form of the file that is there: people and models write names in NFC, and file systems
// and archives have them in NFD, too. One that is there, or in no form, stays as it is.
func inItsForm(name string) string {
	dir, base := filepath.Split(name)
	for _, form := range []norm.Form{norm.NFC, norm.NFD} {
		other := filepath.Join(dir, form.String(base))
		if other == name {
			continue
		}
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if _, err := os.Lstat(other); err == nil {
			return other
		}
	}
	return name
}

// OptionsFor are the rules of a session: its own, or else the node's. The node's Deny is always added.
func OptionsFor(in plugin.BuildContext, node Options) (Options, error) {
	own, found, err := plugin.DecodeOptions[Options](in.Options, ID)
	if err != nil || !found {
		return node, err
	}
	for _, rule := range node.Deny {
		if !slices.Contains(own.Deny, rule) {
			own.Deny = append(own.Deny, rule)
		}
	}
	return own, nil
}

// Denies reports whether Deny has a rule for a tool and one of a file's names.
func (o Options) Denies(tool string, names []string) bool {
	return o.denies(tool, subject{paths: names})
}

func (o Options) denies(tool string, s subject) bool {
	return matches(o.Deny, tool, func(pattern string) bool {
		fold := func(name string) bool { return match(folded(pattern), folded(name), false) }
		return s.command != "" && match(pattern, s.command, false) || slices.ContainsFunc(s.paths, fold) || slices.ContainsFunc(s.dirs, fold)
	})
}

// folded is a path without differences of case and of Unicode form, which some filesystems ignore.
func folded(name string) string {
	return norm.NFD.String(cases.Fold().String(norm.NFD.String(name)))
}

func (o Options) requiresApproval(tool string, s subject) bool {
	return matches(o.Ask, tool, func(pattern string) bool {
		is := func(name string) bool { return match(pattern, name, false) }
		return s.command != "" && is(s.command) || slices.ContainsFunc(s.paths, is) || slices.ContainsFunc(s.dirs, is)
	})
}

// allows requires a rule for the command, and one for each name of the file, if the call has these.
func (o Options) allows(tool string, s subject) bool {
	allowed := func(text string, plain bool) bool {
		return matches(o.Allow, tool, func(pattern string) bool { return text != "" && match(pattern, text, plain) })
	}
	if s.command == "" && len(s.paths) == 0 {
		return allowed("", false)
	}
	return (s.command == "" || allowed(s.command, true)) &&
		!slices.ContainsFunc(s.paths, func(name string) bool { return !allowed(name, false) })
}

// matches reports whether a rule names the tool and has no pattern, or one that fits.
func matches(rules []string, tool string, fits func(pattern string) bool) bool {
	return slices.ContainsFunc(rules, func(rule string) bool {
		name, pattern, found := strings.Cut(rule, ":")
		return match(name, tool, false) && (!found || fits(pattern))
	})
}
