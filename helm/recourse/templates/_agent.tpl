{{- /* What the agent's containers get: variables as `recourse env` prints them, and the CAs to trust. */}}

{{- /* env of the agent's containers. */}}
{{- define "recourse.agentEnv" -}}
{{- $isProxied := and .Values.agent.proxyVariables (not .Values.redirect.enabled) }}
{{- $java := list }}
{{- if $isProxied }}
{{- $proxy := printf "http://127.0.0.1:%d" (int .Values.ports.proxy) }}
{{- range list "HTTP_PROXY" "http_proxy" "HTTPS_PROXY" "https_proxy" }}
- { name: {{ . }}, value: {{ $proxy | quote }} }
{{- end }}
- { name: NO_PROXY, value: {{ .Values.agent.noProxy | quote }} }
- { name: no_proxy, value: {{ .Values.agent.noProxy | quote }} }
- { name: NODE_USE_ENV_PROXY, value: "1" }
{{- range list "http" "https" }}
{{- $java = append $java (printf "-D%s.proxyHost=127.0.0.1 -D%s.proxyPort=%d" . . (int $.Values.ports.proxy)) }}
{{- end }}
{{- $java = append $java (printf "-Dhttp.nonProxyHosts=%s" (.Values.agent.noProxy | replace "," "|")) }}
{{- end }}
{{- if .Values.interception.enabled }}
{{- range list "SSL_CERT_FILE" "REQUESTS_CA_BUNDLE" "CURL_CA_BUNDLE" "NODE_EXTRA_CA_CERTS" "AWS_CA_BUNDLE" "PIP_CERT" "GIT_SSL_CAINFO" "DENO_CERT" "CARGO_HTTP_CAINFO" }}
- { name: {{ . }}, value: /run/recourse/trust/ca.pem }
{{- end }}
{{- if .Values.interception.java }}
{{- $java = append $java "-Djavax.net.ssl.trustStore=/run/recourse/trust/ca.jks -Djavax.net.ssl.trustStoreType=JKS" }}
{{- end }}
{{- end }}
{{- with $java }}
- { name: JAVA_TOOL_OPTIONS, value: {{ join " " . | quote }} }
{{- end }}
{{- end }}

{{- /* volumeMounts of the agent's containers. Of all that Recourse has they see the CAs alone. */}}
{{- define "recourse.agentVolumeMounts" -}}
{{- if .Values.interception.enabled -}}
- { name: recourse-trust, mountPath: /run/recourse/trust, readOnly: true }
{{- end }}
{{- end }}
