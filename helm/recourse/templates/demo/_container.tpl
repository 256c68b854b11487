{{- /* What the demo's containers share; they need nothing but Python. */}}
{{- define "recourse.demoContainer" -}}
image: {{ .Values.demo.image }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ ALL ] }
  seccompProfile: { type: RuntimeDefault }
resources:
  requests: { cpu: 10m, memory: 32Mi }
  limits: { memory: 128Mi }
terminationMessagePolicy: FallbackToLogsOnError
{{- end }}
