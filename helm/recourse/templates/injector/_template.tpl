{{- /* What `recourse inject` adds to a pod: the same parts that charts of yours include. */}}
{{- define "recourse.podTemplate" -}}
{{- $store := set (omit .Values.store "type") "type" "pvc" }}
{{- $bare := set (omit . "Values") "Values" (set (omit .Values "store") "store" $store) }}
{{- include "recourse.check" . }}
version: 1
initContainers:
  {{- include "recourse.initContainers" $bare | nindent 2 }}
volumes:
  {{- include "recourse.volumes" $bare | nindent 2 }}
ledgers:
  {{- range list "emptyDir" "ephemeral" }}
  {{ . }}:
    {{- include "recourse.podLedger" (dict "store" $.Values.store "type" .) | nindent 4 }}
  {{- end }}
ledger: {{ .Values.store.type }}
agentEnv:
  {{- include "recourse.agentEnv" . | trim | default "[]" | nindent 2 }}
agentVolumeMounts:
  {{- include "recourse.agentVolumeMounts" . | trim | default "[]" | nindent 2 }}
imagePullSecrets:
  {{- toYaml .Values.imagePullSecrets | nindent 2 }}
labels:
  {{- include "recourse.podLabels" . | nindent 2 }}
annotations: {}
annotationLists:
  {{- include "recourse.annotationLists" . | nindent 2 }}
unsafePods: {{ .Values.injector.unsafePods }}
workloads: {{ .Values.injector.workloads }}
missingObjects: {{ .Values.injector.objects.missing }}
unknownObjects: {{ .Values.injector.objects.unknown }}
# A profile for the agent's containers is theirs to choose; the sidecar's own has one.
securityContext:
  {{- omit (fromYaml (include "recourse.podSecurityContext" .)) "seccompProfile" | toYaml | nindent 2 }}
terminationGracePeriodSeconds: {{ include "recourse.terminationGracePeriodSeconds" . }}
{{- end }}

{{- define "recourse.injectorName" -}}
{{- printf "%s-injector" (include "recourse.fullname" .) }}
{{- end }}

{{- define "recourse.injectorSelector" -}}
{{ include "recourse.selectorLabels" . }}
app.kubernetes.io/component: injector
{{- end }}

{{- /* Whether injectors make their certificate themselves. */}}
{{- define "recourse.injectorKeepsCa" -}}
{{- with .Values.injector.certificate }}{{ not (or .certManager .existingSecret) }}{{ end }}
{{- end }}

{{- /* Whether they ask API servers anything. */}}
{{- define "recourse.injectorAsks" -}}
{{- or (eq (include "recourse.injectorKeepsCa" .) "true") (ne .Values.injector.objects.missing "ignore") }}
{{- end }}

{{- /* The Secret of the webhook's certificate, or of its CA: members ca.crt. */}}
{{- define "recourse.injectorTlsSecret" -}}
{{- $kind := eq (include "recourse.injectorKeepsCa" .) "true" | ternary "authority" "tls" }}
{{- .Values.injector.certificate.existingSecret | default (printf "%s-%s" (include "recourse.injectorName" .) $kind) }}
{{- end }}

{{- /* Of the whole cluster. API servers ask in the order of names, and a mesh that is asked later puts itself first. */}}
{{- define "recourse.mutatingWebhook" -}}
{{- printf "0-%s-%s" .Release.Namespace (include "recourse.injectorName" .) }}
{{- end }}

{{- define "recourse.validatingWebhook" -}}
{{- printf "%s-%s-workloads" .Release.Namespace (include "recourse.injectorName" .) }}
{{- end }}

{{- define "recourse.injectorAccount" -}}
{{- include "recourse.accountName" (dict "account" .Values.injector.serviceAccount "name" (include "recourse.injectorName" .)) }}
{{- end }}

{{- define "recourse.injectedNamespaces" -}}
matchExpressions:
  - { key: recourse.dev/injection, operator: In, values: [ enabled ] }
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values:
      {{- append .Values.injector.excludedNamespaces .Release.Namespace | uniq | toYaml | nindent 6 }}
{{- end }}
