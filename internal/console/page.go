package console

import (
	"bytes"
	"html/template"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// option is a value of one of the API's enums.
type option struct{ Value, Word string }

// page fills the page in once: the words to choose from are the API's own.
func page(o Options) ([]byte, error) {
	t, err := template.New("index.html").Funcs(template.FuncMap{"enum": options}).ParseFS(assets, "assets/index.html")
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = t.Execute(&text, map[string]any{"DataPlane": o.DataPlane})
	return text.Bytes(), err
}

// options lists the values of an enum of retry.v1 but the first, which is what is not known.
func options(name string) ([]option, error) {
	found, err := protoregistry.GlobalTypes.FindEnumByName(protoreflect.FullName("retry.v1." + name))
	if err != nil {
		return nil, err
	}
	values := found.Descriptor().Values()
	prefix := strings.TrimSuffix(string(values.Get(0).Name()), "UNSPECIFIED")
	var all []option
	for i := 1; i < values.Len(); i++ {
		value := string(values.Get(i).Name())
		all = append(all, option{value, strings.ToLower(strings.TrimPrefix(value, prefix))})
	}
	return all, nil
}
